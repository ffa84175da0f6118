"""An OCI image layout (image-spec 1.0): a folder that registries' clients copy from. The same files give the same digests: layers
are sorted, owned by root, and dated by the caller."""

import gzip
import hashlib
import io
import json
import tarfile

MANIFEST, CONFIG = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(files, date):
    """The tar of {path: bytes (a file), str (a symbolic link), None (a folder)}; a file below a bin folder may be executed."""
    folders = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in sorted({**dict.fromkeys(folders), **files}.items()):
            entry = tarfile.TarInfo(path)
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = date, 0, 0, "root", "root"
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            elif isinstance(content, str):
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, content, 0o777
            else:
                entry.size, entry.mode = len(content), 0o755 if "/bin/" in f"/{path}" or ".so" in path else 0o644
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


class Layout:
    def __init__(self, folder):
        self.folder = folder
        (folder / "blobs/sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def add(self, data, media_type):
        """A descriptor of the data."""
        (self.folder / "blobs" / digest(data).replace(":", "/")).write_bytes(data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def add_json(self, tree, media_type):
        return self.add(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode(), media_type)

    def write_image(self, layers, config, created, architecture, tag):
        """layers: as layer() makes them, the lowest first. The digest of the image."""
        blobs = [self.add(gzip.compress(each, 9, mtime=0), LAYER) for each in layers]
        full = {"architecture": architecture, "os": "linux", "created": created, "config": config,
                "rootfs": {"type": "layers", "diff_ids": [digest(each) for each in layers]}}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": self.add_json(full, CONFIG), "layers": blobs,
                    "annotations": {"org.opencontainers.image.created": created}}
        descriptor = self.add_json(manifest, MANIFEST)
        platform = {"architecture": architecture, "os": "linux"}
        index = {"schemaVersion": 2, "manifests": [{**descriptor, "platform": platform, "annotations": {"org.opencontainers.image.ref.name": tag}}]}
        (self.folder / "index.json").write_text(json.dumps(index, sort_keys=True, separators=(",", ":")))
        return descriptor["digest"]
