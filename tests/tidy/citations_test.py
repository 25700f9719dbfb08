#!/usr/bin/env python3
"""Small projects with one citation each: what is there passes, what is not is named with file and line."""
import pathlib
import tempfile
import unittest

from citations import Project

DESIGN = "# The design\n\n## Order of sums\n\n```\n# no heading\n```\n\n## What `prune` keeps\n"


def breaches(files):
    """Of a project of these files, beside a document docs/design.md and a source."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {"docs/design.md": DESIGN, "trainer/comm/reduction.h": "", **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return Project(root).check()


class CitationsTest(unittest.TestCase):
    def test_what_is_there(self):
        self.assertEqual(breaches({
            "trainer/a.h": "// As reduction.h and trainer/comm/reduction.h say (docs/design.md, \"Order of\n"
                           "// sums\", \"What `prune` keeps\"); see comm/ and docs/.\n",
            "tests/a.py": '"""See docs/design.md."""\nRUN = "docs/none.txt"  # trainer/comm\n',
            "tests/run.sh": "# As docs/design.md, \"The design\"\nrm -f trainer/none.h\n",
            "docs/a.md": "[one](design.md#order-of-sums) [two](#here) [three][3] [far](https://example.org/x.md)\n"
                         "# Here\n[3]: design.md#what-prune-keeps\n`[code](#none)` of train.py\n",
        }), [])

    def test_a_file_that_is_not_there(self):
        self.assertEqual(breaches({"trainer/a.h": "int a;\n// Up to\n// docs/plan.md in all\n"}),
                         ["trainer/a.h:3: docs/plan.md is not there"])
        self.assertEqual(breaches({"trainer/a.h": "int a;  // see operator/none.cc\n"}),
                         ["trainer/a.h:1: operator/none.cc is not there"])
        self.assertEqual(breaches({"trainer/a.cc": 'auto a = "x // y";  // none.h\n'}),
                         ["trainer/a.cc:1: none.h is not there"])
        self.assertEqual(breaches({"tests/a.py": 'def a():\n    """See\n    docs/none.md."""\n'}),
                         ["tests/a.py:3: docs/none.md is not there"])
        self.assertEqual(breaches({"tests/a.sh": "true  # tests/none\n"}), ["tests/a.sh:1: tests/none is not there"])
        self.assertEqual(breaches({"README.md": "Begin with `trainer/none.cc`.\n"}),
                         ["README.md:1: trainer/none.cc is not there"])

    def test_a_document_that_a_message_names(self):
        self.assertEqual(breaches({"trainer/a.cc": 'auto help = "(docs/none.md)";\n'}),
                         ["trainer/a.cc:1: docs/none.md is not there"])

    def test_a_heading_that_is_not_there(self):
        self.assertEqual(breaches({"trainer/a.h": '// (docs/design.md, "Order of\n// terms")\n'}),
                         ['trainer/a.h:1: docs/design.md has no heading "Order of terms"'])
        self.assertEqual(breaches({"trainer/a.h": '// docs/design.md, "Order of sums", "no heading"\n'}),
                         ['trainer/a.h:1: docs/design.md has no heading "no heading"'])

    def test_a_number_instead_of_a_heading(self):
        for cited in ("docs/design.md section 3", "docs/design.md 6.3", "DESIGN 4.2"):
            found = breaches({"trainer/a.h": f"// As {cited} says\n"})
            self.assertEqual(len(found), 1, found)
            self.assertIn("trainer/a.h:1: " + cited[:10], found[0])

    def test_links(self):
        for link in ("[a](none.md)", "[a](design.md#order-of-terms)", "[a](#here)", "[a]: none.md", "[`a`](none.md)"):
            found = breaches({"docs/a.md": f"# There\n\n{link}\n"})
            self.assertEqual(len(found), 1, (link, found))
            self.assertTrue(found[0].startswith("docs/a.md:3: "), found)

    def test_what_is_somebody_elses(self):
        self.assertEqual(breaches({
            "trainer/a.h": "// github.com/apache/singa/examples/cnn/model/cnn.py; RFC 4251 section 5; YAML 1.1\n",
            "docs/a.md": "What `train_mnist.py` does.\n"}), [])


if __name__ == "__main__":
    unittest.main()
