#!/usr/bin/env python3
"""docs/contract.md and docs/operator.md name what the programs show to others: variables, exit codes, ports, fields of
spec and status, conditions, flags. Prints what is missing: nothing is added without a word there."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA_WORDS = {"type", "description", "items", "maxItems", "properties", "required"}


def read(*names):
    return "\n".join((ROOT / name).read_text() for name in names)


def below(folder, pattern):
    return read(*(p.relative_to(ROOT) for p in sorted((ROOT / folder).rglob(pattern))))


def shown():
    """What it is, its name, and under which heading it must stand ("": anywhere)."""
    variables = set(re.findall(r"^  ([A-Z_a-z]+)=", below("tests/golden/plans/workers", "*.txt"), re.M))
    variables |= set(re.findall(r'"(COXSWAIN_\w*[A-Z])"', below("operator", "*.cc") + below("trainer", "*.cc")))
    for name in variables:
        yield "variable", name, "Environment"
    for code in re.findall(r"= (\d+),", read("trainer/contract/exit_code.h")):
        yield "exit code", code, "Exit codes"
    for port in re.findall(r"Port = (\d+);", read("trainer/contract/worker/constants.h")):
        yield "port", port, "Pods, ports and objects"
    spec, _, status = read("crds/trainingjobs.yaml").partition("\n            status:\n")
    for field in re.findall(r"^ {16}(\w+):", spec.partition("\n            spec:\n")[2], re.M):
        yield "field of spec", field, "The TrainingJob"
    for field in set(re.findall(r"^(?: {16}| {20})(\w+):", status, re.M)) - SCHEMA_WORDS:
        yield "field of the status", field, "Status"
    for condition in re.findall(r'k\w+ = "(\w+)"', read("operator/job/status.h")):
        yield "condition", condition, "What the status says"
    for flag in re.findall(r'add_(?:option|flag)\(\s*"(?:-\w,)?(--[\w-]+)"', read("operator/main.cc", "trainer/main.cc")):
        yield "flag", flag, ""


def missing(documents):
    """Names that the part under their heading does not hold."""
    parts = dict(part.partition("\n")[::2] for part in re.split(r"^##+ ", documents, flags=re.M))
    parts[""] = documents
    return sorted({f"{what} {name} is not in docs/contract.md or docs/operator.md" + (f', "{heading}"' if heading else "")
                   for what, name, heading in shown()
                   if not re.search(rf"(?<![\w-]){name}(?![\w-])", parts.get(heading, ""))})


def main():
    breaches = missing(read("docs/contract.md", "docs/operator.md"))
    for breach in breaches:
        print(breach)
    names = set(shown())
    # In empty documents every one of them is missing, of every kind: each is really looked for.
    assert len(missing("")) == len(names) and len({what for what, *_ in names}) == 7
    print(f"contract: {len(names)} names, {len(breaches)} missing")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
