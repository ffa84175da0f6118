// Command kube-apiserver is Kubernetes' own API server, built from Kubernetes'
// Go modules for the end-to-end tests of culvert-agent.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics at /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info at /metrics
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
