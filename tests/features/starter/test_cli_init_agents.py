"""`gpuperf init --agents`: a skill file for coding agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from command_line import gpuperf
from pytest_gpuperf.features.starter.command import SKILLS, packaged

if TYPE_CHECKING:
    from pathlib import Path

TEXT = packaged("SKILL.md")


def init() -> str:
    return gpuperf("init", "--agents", status=0).output


def test_only_skill_files_are_written(project: Path) -> None:
    init()
    written = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert written == {*SKILLS}
    assert {(project / path).read_text(encoding="utf-8") for path in written} == {TEXT}


def test_linked_folder_gets_one_file(project: Path) -> None:
    (project / ".agents" / "skills").mkdir(parents=True)
    (project / ".claude").mkdir()
    (project / ".claude" / "skills").symlink_to("../.agents/skills")
    init()
    assert (project / ".claude/skills/gpuperf/SKILL.md").read_text(encoding="utf-8") == TEXT


def test_front_matter_has_the_form_of_skills() -> None:
    _, matter, body = TEXT.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in matter.splitlines())
    assert fields.keys() == {"name", "description"}
    assert all(name.endswith(f"/{fields['name']}/SKILL.md") for name in SKILLS)
    assert 0 < len(fields["description"]) <= 1024
    assert len(body.splitlines()) < 100
