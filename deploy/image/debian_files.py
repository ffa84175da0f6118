"""What a program needs of this Debian system: its shared libraries with the loader, as installed by packages whose files are
unchanged, and what these packages are."""

import pathlib
import re
import subprocess


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def libraries(program):
    """Absolute paths, as the loader opens them."""
    found = re.findall(r"(?:=> )?(/[^ ]+) \(0x", output("ldd", program))
    return sorted(set(found))


def owner(path):
    """The package that a file belongs to; /lib is a link to /usr/lib since Debian 12, packages may name either."""
    for name in (path, path.removeprefix("/usr"), "/usr" + path):
        done = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(": ")[0]
    raise SystemExit(f"{path} belongs to no Debian package")


def check_unchanged(package):
    """Files that differ from what the package installed must not get into an image."""
    changed = [line for line in subprocess.run(["dpkg", "--verify", package], capture_output=True, text=True).stdout.splitlines()
               if not re.search(r" c /|/usr/share/(doc|man|locale|info)/", line)]
    if changed:
        raise SystemExit(f"{package} was changed after its installation: {changed[0]}")


def describe(package):
    """{"name", "version", "architecture", "source", "status"}: the last is its paragraph, for scanners of images."""
    fields = output("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\t${source:Package}", package).split("\t")
    status = f"Package: {fields[0]}\nStatus: install ok installed\nArchitecture: {fields[2]}\nVersion: {fields[1]}\nSource: {fields[3]}\n"
    return dict(zip(("name", "version", "architecture", "source"), fields), status=status)


def collect(programs, more_packages=()):
    """({path without the first slash: content}, [package]) of the programs' libraries and of what else is named."""
    paths = sorted({path for program in programs for path in libraries(program)})
    packages, files = {}, {}
    for path in paths:
        real = pathlib.Path(path).resolve()
        package = owner(str(real))
        packages.setdefault(package, describe(package))
        target = str(real).removeprefix("/")
        files[target] = real.read_bytes()
        name = "usr" + path if path.startswith("/lib") else path.removeprefix("/")
        if name != target:
            files[name] = real.name if pathlib.PurePath(name).parent == pathlib.PurePath(target).parent else f"/{target}"
    for package in more_packages:
        packages[package] = describe(package)
    for package in packages:
        check_unchanged(package)
    for described in packages.values():
        copyright_file = pathlib.Path(f"/usr/share/doc/{described['name']}/copyright")
        files[f"var/lib/dpkg/status.d/{described['name']}"] = described["status"].encode()
        if copyright_file.exists():
            files[f"usr/share/doc/{described['name']}/copyright"] = copyright_file.read_bytes()
    return files, sorted(packages.values(), key=lambda each: each["name"])
