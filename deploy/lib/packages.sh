# What Culvert needs from Debian 12, by purpose. Sourced by deploy/quickstart and tests/run.

packages_build="build-essential cmake ninja-build pkg-config libh2o-dev libuv1-dev
 libnghttp2-dev libpq-dev libhiredis-dev librabbitmq-dev libssl-dev libjansson-dev libzstd-dev zlib1g-dev libdeflate-dev
 libcurl4-openssl-dev libyaml-dev"
packages_run="postgresql-15 redis-server openssl curl python3 ca-certificates"
packages_replicas="haproxy"
packages_test="rabbitmq-server python3-h2 python3-cryptography python3-websockets python3-grpcio libcmocka-dev python3-pytest python3-pytest-xdist python3-yaml clang-14 libclang-rt-14-dev clang-format-14 git nginx-light haproxy libfaketime varnish slowhttptest strace zstd chromium python3-pip prometheus"

# ui_packages: what the web UI needs to be built, and tests that use npm; nothing where node 18 and npm are there already.
ui_packages() {
    local version
    version=$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\).*/\1/p')
    if [ "${version:-0}" -ge 18 ] && command -v npm >/dev/null; then return 0; fi
    echo nodejs npm
}

# packages_install NAME...: installs what is missing. Servers that come along are not started: culvert runs private ones.
packages_install() {
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo "packages: all there"
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "packages: missing, and only root can install them. Run this, then start again:" >&2
        echo "  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        return 1
    fi
    echo "packages: installing ${missing[*]}"
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    fi
    local log
    log=$(mktemp)
    if ! { DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get update &&
        DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}
