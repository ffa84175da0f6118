"""The bill of materials of an image, CycloneDX 1.5."""

import hashlib
import uuid


def purl(package, distribution):
    return f"pkg:deb/debian/{package['name']}@{package['version'].replace('+', '%2B').replace(':', '%3A')}?arch={package['architecture']}&distro={distribution}"


def bill(name, version, image_digest, program, packages, created):
    """program: its bytes; packages: those of the base and its own."""
    root = {"type": "container", "bom-ref": f"{name}@{image_digest}", "name": name, "version": version, "purl": f"pkg:oci/{name}@{image_digest.replace(':', '%3A')}"}
    own = {"type": "application", "bom-ref": f"/usr/bin/{name}", "name": name, "version": version,
           "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(program).hexdigest()}]}
    libraries = [{"type": "library", "bom-ref": purl(package, "debian-12"), "name": package["name"], "version": package["version"],
                  "purl": purl(package, "debian-12"), "properties": [{"name": "debian:source", "value": package["source"]}]} for package in packages]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, image_digest)}",
            "metadata": {"timestamp": created, "component": root}, "components": [own, *libraries],
            "dependencies": [{"ref": root["bom-ref"], "dependsOn": [own["bom-ref"]]},
                             {"ref": own["bom-ref"], "dependsOn": [library["bom-ref"] for library in libraries]}]}
