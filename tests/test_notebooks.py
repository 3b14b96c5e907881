"""The notebooks run from top to bottom and show what they claim; in git they hold nothing that a run leaves behind.

``python tests/test_notebooks.py`` strips them (outputs, execution counts, the machine's metadata) after an edit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def stripped(text: str) -> str:
    """A notebook as it stands in git: what a person wrote, and nothing else."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    notebook["metadata"] = METADATA
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stripped(path):
    text = path.read_text(encoding="utf-8")
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
    assert text == stripped(text), f"Strip the notebooks: python {Path(__file__).name}"


def test_stripping_leaves_what_was_written():
    nbformat = pytest.importorskip("nbformat")
    written = [nbformat.v4.new_markdown_cell("Tëxt."), nbformat.v4.new_code_cell("1 + 1\n2")]
    before = nbformat.v4.new_notebook(cells=written, metadata=METADATA)
    plain = stripped(nbformat.writes(before))
    written[1] |= {"execution_count": 7, "outputs": [nbformat.v4.new_output("stream", text="2")]}
    written[0]["metadata"] = {"tags": ["mine"]}
    used = nbformat.v4.new_notebook(cells=written, metadata={"kernelspec": {"name": "other", "display_name": "Other"}})
    assert stripped(nbformat.writes(used)) == plain
    back = nbformat.reads(plain, as_version=4)
    nbformat.validate(back)
    assert [cell.source for cell in back.cells] == ["Tëxt.", "1 + 1\n2"] and back.cells[1].outputs == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_links_lead_somewhere(path):
    import re

    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for target in re.findall(
            r"\]\((?!\w+:)([^)#]+)", "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
        ):
            assert (FOLDER / target).exists(), target


# -- running them -------------------------------------------------------------------------------------------------------


class Executed:
    """A notebook that was run in an empty folder by the interpreter that runs the tests.

    Args:
        path: the notebook.
        folder: where it runs, and where all that Jupyter writes goes.
        names: variables of the notebook to read at its end, all plain values.
    """

    def __init__(self, path: Path, folder: Path, *names: str):
        nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
        pytest.importorskip("ipykernel")
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager
        from jupyter_core.utils import run_sync

        # Not the machine's kernel "python3", which may be another interpreter's.
        spec = folder / "kernels" / "python3" / "kernel.json"
        spec.parent.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
        specs = KernelSpecManager(kernel_dirs=[str(spec.parent.parent)], ensure_native_kernel=False)
        work = folder / "work"
        work.mkdir()

        notebook = nbformat.read(path, as_version=4)
        source = f"import json, sys\nprint(json.dumps([sys.executable, {', '.join(names)}]))"
        notebook.cells.append(nbformat.v4.new_code_cell(source))
        manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
        where = {"metadata": {"path": str(work)}}
        try:
            nbclient.NotebookClient(notebook, km=manager, timeout=600, resources=where).execute()
        finally:  # nbclient ends only kernels that it has chosen itself
            run_sync(manager.shutdown_kernel)(now=True)
        self.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        executable, *values = json.loads(self.cells.pop().outputs[0]["text"])
        assert executable == sys.executable
        self.variables: dict[str, Any] = dict(zip(names, values, strict=True))

    def outputs(self, kind: str) -> list[Any]:
        """All that was shown of a MIME type; of ``stdout`` the texts."""
        found = []
        for cell in self.cells:
            for output in cell.outputs:
                if output.output_type == "stream" and output.name == kind:
                    found.append(output.text)
                elif kind in output.get("data", {}):
                    found.append(output.data[kind])
        return found


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Runs a notebook by the start of its name; nothing is written outside the test's folder."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / "settings" / name.lower()))
        (tmp_path / "settings" / name.lower()).mkdir(parents=True)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(start: str, *names: str) -> Executed:
        (path,) = (p for p in NOTEBOOKS if p.name.startswith(start))
        return Executed(path, tmp_path, *names)

    return run


def test_every_notebook_is_executed_by_a_test():
    assert [path.name[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04"]


def test_environments(execute):
    pytest.importorskip("matplotlib")
    found = execute("01", "scores", "paid", "list(lengths)")
    scores = found.variables["scores"]
    assert scores["alike"] == 0.5 and 2 < scores["short_and_long"] < scores["linked"] < 3
    # The plateau of the picture: the long text pays most at about twice the short one.
    paid = dict(zip(found.variables["list(lengths)"], found.variables["paid"], strict=True))
    assert max(paid, key=paid.get) in range(24, 40) and paid[30] > 2 > paid[60] and paid[78] == 0.5
    said = "".join(found.outputs("stdout"))
    assert f"linked          {scores['linked']:.2f} of 3" in said
    assert "Short of the maximum:" in said and "{'summarizer': 1, 'elaborator': 0}" in said
    assert len(found.outputs("image/png")) == 1 and "[]" in found.outputs("text/plain")


def test_train_magrpo(execute):
    pytest.importorskip("llm_marl_baselines")
    found = execute("02", "before", "after", "answers", "rewards")
    assert found.variables["before"] < 0.4 and found.variables["after"] > 0.9
    one, two = found.variables["answers"].values()
    assert one == two and one in "ABCD" and set(found.variables["rewards"].values()) == {1.0}
    said = "".join(found.outputs("stdout"))
    assert (
        f"Held-out score: {found.variables['before']:.2f} before training, {found.variables['after']:.2f} after."
        in said
    )
    assert "step 0 -> step 20" in said and "[turn 1, agent_1 writes]" in said
    assert len(found.outputs("image/png")) == 1


def test_own_task_and_feedback(execute):
    pytest.importorskip("llm_marl_baselines")
    found = execute("03", "scores", "evaluations[0]['score']", "evaluations[20]['score']")
    scores = found.variables["scores"]
    assert found.variables["evaluations[0]['score']"] < 0.2 and found.variables["evaluations[20]['score']"] > 0.9
    assert scores["revise"] < 0.4 and scores["wiped"] > 0.9
    said = "".join(found.outputs("stdout"))
    assert f"feedback wiped   {scores['wiped']:.2f} of 1" in said
    assert "2 D 1.0" in said and "2 A 0.25" in said and "? ? 0.0" in said
    assert len(found.outputs("image/png")) == 1 and "[]" in found.outputs("text/plain")


def test_third_party_torchrl(execute):
    pytest.importorskip("llm_marl_baselines")
    pytest.importorskip("torchrl")
    found = execute("04", "torchrl_rewards", "ours")
    for rewards in found.variables.values():
        assert len(rewards) == 12
        assert rewards[0] < 0.5 and rewards[-1] > 0.9
    said = "".join(found.outputs("stdout"))
    for name, rewards in zip(("TorchRL", "ours"), found.variables.values(), strict=True):
        assert f"{name:8}{rewards[0]:6.2f}{rewards[-1]:6.2f}" in said
    assert len(found.outputs("image/png")) == 1


if __name__ == "__main__":
    for path in NOTEBOOKS:
        path.write_text(stripped(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"stripped {path}")
