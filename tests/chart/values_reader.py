"""The chart's values as three files tell of them: {"image.tag": '""'}."""
import json
import re

from helm import CHART


def of_values_file():
    """values.yaml, which keeps to maps in block style with leaves on one line."""
    leaves, path = {}, []
    for line in (CHART / "values.yaml").read_text().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent, key, value = re.fullmatch(r"( *)(\w+):(?: (.*))?", line).groups()
        path[len(indent) // 2:] = [key]
        if value is not None:
            leaves[".".join(path)] = value
    return leaves


def of_readme():
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", (CHART / "README.md").read_text(), re.M)
    return dict(rows)


def of_schema():
    """Its keys, as deep as values.yaml goes."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    leaves, keys = of_values_file(), set()

    def visit(part, path):
        if ".".join(path) in leaves or "properties" not in part and "$ref" not in part:
            keys.add(".".join(path))
            return
        part = schema["definitions"].get(part.get("$ref", "").rpartition("/")[2], part)
        for name, inner in part.get("properties", {}).items():
            visit(inner, [*path, name])

    visit(schema, [])
    keys.remove("global")  # Helm's own: it hands it to every chart
    return keys
