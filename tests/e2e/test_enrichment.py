"""What CI pushes about images: each of it may be sent again, in any order, by any number of pipelines at once."""

import concurrent.futures
import uuid

import pytest

BINARY = "mutation($i: ImageBinaryInput!) { createImageBinary(imageBinary: $i) { id imageName workflowName commit branch size author { username } } }"
PATCH = "mutation($id: String, $p: ImageBinaryPatchInput!, $n: String) { patchImageBinary(imageId: $id, imagePatch: $p, imageName: $n) { id imageName commit branch workflowName } }"
LAYERS = "mutation($l: ImageLayersInput!) { createImageLayers(imageLayers: $l) { accountId created image layerDigests layers { created instruction size args } } }"
REGISTRY = "mutation($r: ImageRegistryInput!) { createImageRegistry(imageRegistry: $r) { binaryId repoDigest } }"
ANNOTATE = "mutation($a: AnnotationArgs!) { saveAnnotation(annotation: $a) }"


def name():
    return f"registry.example/web-{uuid.uuid4().hex[:12]}"


def binary(**more):
    return {"id": uuid.uuid4().hex, "created": "2026-01-02T03:04:05Z", "imageName": name(), **more}


def test_image_is_one_however_often_it_is_told(platform):
    image = binary(commit="abc", workflowName="build", size=12345.5, author={"username": "ann"})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: platform.graphql(BINARY, {"i": image})["createImageBinary"], range(16)))
    want = {"id": image["id"], "imageName": image["imageName"], "workflowName": "build", "commit": "abc", "branch": None, "size": 12345.5, "author": {"username": "ann"}}
    assert all(a == want for a in answers), answers
    assert platform.psql(f"select count(*) from culvert.images where image_id = '{image['id']}'") == [["1"]]
    # Told again with less, it knows what it knew.
    later = {"id": image["id"], "created": image["created"], "imageName": image["imageName"], "branch": "main"}
    assert platform.graphql(BINARY, {"i": later})["createImageBinary"] == {**want, "branch": "main"}


def test_patch(platform):
    image = binary(commit="abc")
    platform.graphql(BINARY, {"i": image})
    want = {"id": image["id"], "imageName": image["imageName"], "commit": "def", "branch": None, "workflowName": "w"}
    for by in ({"id": image["id"]}, {"n": image["imageName"]}, {"id": image["id"], "n": image["imageName"]}):
        assert platform.graphql(PATCH, {**by, "p": {"commit": "def", "workflowName": "w"}})["patchImageBinary"] == want
    assert platform.graphql(PATCH, {"id": "nobody", "p": {"commit": "x"}})["patchImageBinary"] is None
    assert platform.graphql(PATCH, {"id": image["id"], "n": "another", "p": {"commit": "x"}})["patchImageBinary"] is None


def test_layers_and_registries(platform):
    image = name()
    layers = {"image": image, "layerDigests": ["sha256:1"], "layers": [{"created": "now", "instruction": "RUN", "size": 1, "args": "make"}]}
    for _ in range(2):
        answer = platform.graphql(LAYERS, {"l": layers})["createImageLayers"]
        assert answer["layers"] == layers["layers"] and answer["layerDigests"] == ["sha256:1"] and answer["image"] == image
    place = {"binaryId": uuid.uuid4().hex, "created": "now", "imageName": image, "repoDigest": "sha256:2", "registry": {"domain": "a.example"}, "tags": [{"tag": "v1", "created": "now"}]}
    for where in ("a.example", "b.example", "a.example"):
        answer = platform.graphql(REGISTRY, {"r": {**place, "registry": {"domain": where}}})["createImageRegistry"]
        assert answer == {"binaryId": place["binaryId"], "repoDigest": "sha256:2"}
    assert platform.psql(f"select count(*) from culvert.image_registries where image_id = '{place['binaryId']}'") == [["2"]]


def test_annotations(platform):
    thing = uuid.uuid4().hex
    issue = {"logicEntityId": {"id": thing}, "entityType": "image", "type": "issue", "key": "SHOP-1", "issueValue": {"url": "https://jira.example/SHOP-1", "title": "t", "status": "open"}}
    for status in ("open", "closed"):
        assert platform.graphql(ANNOTATE, {"a": {**issue, "issueValue": {**issue["issueValue"], "status": status}}})["saveAnnotation"] is True
    assert platform.psql(f"select value -> 'issueValue' ->> 'status' from culvert.annotations where entity_id = '{thing}'") == [["closed"]]
    k8s = {**issue, "logicEntityId": None, "k8sEntityId": {"kind": "Application", "name": thing, "group": "argoproj.io"}}
    assert platform.graphql(ANNOTATE, {"a": k8s})["saveAnnotation"] is True


WRONG = [
    (BINARY, {"i": binary(id="")}, "imageBinary.id"),
    (BINARY, {"i": binary(id="x" * 600)}, "600 bytes"),
    (BINARY, {"i": binary(size=-1)}, "size"),
    (BINARY, {"i": binary(size=1e300)}, "size"),
    (BINARY, {"i": binary(commitMsg="a\0b")}, "NUL"),
    (BINARY, {"i": binary(info="x" * 300000)}, "the limit"),
    (PATCH, {"p": {}}, "imageId"),
    (ANNOTATE, {"a": {"entityType": "image", "type": "issue", "key": "K", "genericValue": "x"}}, "k8sEntityId"),
    (ANNOTATE, {"a": {"logicEntityId": {"id": "1"}, "entityType": "image", "type": "issue", "key": "K"}}, "issueValue"),
    (ANNOTATE, {"a": {"logicEntityId": {"id": "1"}, "entityType": "image", "type": "issue", "key": "", "genericValue": "x"}}, "annotation.key"),
]


@pytest.mark.parametrize("query,variables,says", WRONG)
def test_wrong_input_is_named(platform, query, variables, says):
    answer = platform.graphql_answer(query, variables).json()
    assert says in answer["errors"][0]["message"], answer
