// Command kubernetes is Kubernetes' own API server and controller manager in one binary, built from Kubernetes' Go
// modules for the tests: `kubernetes kube-apiserver ...`, `kubernetes kube-controller-manager ...`. One binary, since
// two would each carry and link the same 1,900 packages.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // CronJob's time zones

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics at /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info at /metrics
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: kubernetes kube-apiserver|kube-controller-manager FLAGS...")
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = append([]string{name}, os.Args[2:]...) // as if it were a binary of its own
	os.Exit(cli.Run(commands[name]()))
}
