#!/usr/bin/env python3
"""Writes kubernetes.json: PodTemplateSpec and VolumeSource of an API server, flattened for our CRD.

    crds/generator/fetch_schemas.py      with KUBECONFIG set and kubectl in PATH

The schemas come from the server's /openapi/v3/api/v1. What changes on the way, and why:
  - references are replaced by what they name: a CRD has none;
  - descriptions go, for size, and enumerations, which later releases of Kubernetes extend;
  - defaults go, since the API server fills them into the pods; those of the keys of a list stay,
    without which it takes no optional key;
  - ObjectMeta becomes its labels and annotations: nothing else of it means anything in a template;
"""
import json
import pathlib
import subprocess

CORE = "io.k8s.api.core.v1."
# What no template can have: the containers that `kubectl debug` adds to a running pod.
DROPPED = {CORE + "PodSpec": {"ephemeralContainers"}}
KEPT = ("type", "format", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type")
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"x-kubernetes-int-or-string": True},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
        "type": "object", "properties": {"labels": TEXTS, "annotations": TEXTS}},
}


def resolve(schema):
    """The name of the schema that a reference, alone or within allOf, stands for, or None."""
    parts = [schema, *schema.get("allOf", [])]
    return next((part["$ref"].rsplit("/", 1)[-1] for part in parts if "$ref" in part), None)


def flatten(schema, schemas):
    name = resolve(schema)
    if name in SPECIAL:
        return SPECIAL[name]
    if name:
        schema = {**schemas[name], **{k: v for k, v in schema.items() if k.startswith("x-")}}
    flat = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        flat["properties"] = {key: flatten(value, schemas)
                              for key, value in sorted(schema["properties"].items())
                              if key not in DROPPED.get(name, ())}
    if "items" in schema:
        flat["items"] = flatten(schema["items"], schemas)
        keep_key_defaults(schema, flat, schemas)
    if "additionalProperties" in schema:
        flat["additionalProperties"] = flatten(schema["additionalProperties"], schemas)
    return flat


def keep_key_defaults(schema, flat, schemas):
    items = schemas.get(resolve(schema["items"]), schema["items"])
    for key in schema.get("x-kubernetes-list-map-keys", []):
        if key not in items.get("required", []):
            flat["items"]["properties"][key]["default"] = items["properties"][key]["default"]


def kubectl(*arguments):
    return json.loads(subprocess.check_output(["kubectl", "--request-timeout=30s", *arguments]))


def main():
    version = kubectl("get", "--raw", "/version")["gitVersion"]
    schemas = kubectl("get", "--raw", "/openapi/v3/api/v1")["components"]["schemas"]
    template = flatten({"$ref": CORE + "PodTemplateSpec"}, schemas)
    volume = flatten({"$ref": CORE + "Volume"}, schemas)
    del volume["properties"]["name"], volume["required"]
    out = {"version": version, "PodTemplateSpec": template, "VolumeSource": volume}
    target = pathlib.Path(__file__).with_name("kubernetes.json")
    target.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
