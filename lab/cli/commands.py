"""What each command does between its arguments and its exit code: call the rooms, print what they answer."""

from __future__ import annotations

import errno
import secrets
import shlex
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lab.errors import ExitCode, LabError
from lab.paths import state_dir
from lab.report.consoles import consoles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.comparison import Judgement, Picture
    from lab.search.campaign import Task


def run_command(
    scenario: str,
    settings: list[str],
    lock: str | None,
    seed: int | None,
    on: str,
    out: Path,
    picture: Picture,
    *,
    as_json: bool,
) -> int:
    """``lab run``."""
    from lab.drivers.place import refusal
    from lab.report.terminal import StoryTeller, print_ending, print_judgement
    from lab.run.execution import Run, RunOptions, told_in_short
    from lab.run.steps import needed_of
    from lab.scenario.load import load_scenario
    from lab.substrates import choose, is_simulated
    from lab.substrates.execute import Interrupted, execute_on

    data, talk = consoles()
    overrides = [*settings, *([f"lock.name={lock}"] if lock else [])]
    loaded = load_scenario(scenario, overrides)
    story = loaded.scenario
    service, refuses = story.cluster.service, refusal(story.lock.name)
    substrate, why = choose(on, needed_of(story), service=service, refuses=refuses)
    drawn = secrets.randbelow(2**31) if seed is None else seed
    repeat = _repeat_command(scenario, overrides, drawn, substrate)
    talk.print(f"[bold]{loaded.name}[/]: {story.title}", soft_wrap=True)
    talk.print(
        f"seed {drawn} · substrate {substrate} ({why}) · {told_in_short(story)}",
        style="dim",
        markup=False,
    )
    run = Run(loaded, RunOptions(drawn, out, repeat, substrate, picture), StoryTeller(talk))

    def tell(judgement: Judgement, aborted: str | None) -> None:
        if not as_json:
            print_judgement(data, loaded.name, judgement, aborted)

    try:
        result = run.conclude(execute_on(substrate, drawn, run.prepare()), tell)
    except Interrupted:
        talk.print("interrupted: everything was stopped, the history is kept", style="yellow")
        return ExitCode.INTERRUPTED
    if as_json:
        sys.stdout.buffer.write((result.directory / "verdict.json").read_bytes())
    else:
        print_ending(
            data,
            result.directory,
            result.judgement,
            result.timings.seconds,
            simulated=is_simulated(substrate),
        )
    if result.exit_code != ExitCode.EXPECTED:
        talk.print(f"repeat: {repeat}", markup=False, soft_wrap=True)
    return result.exit_code


def _is_no_run(target: Path) -> bool:
    """Whether a path is no run's directory nor its history: the checker says what is wrong with it."""
    try:
        return target.exists() and not target.is_dir() and target.name != "history.jsonl"
    except OSError:
        return True


def check_command(target: Path, options: Sequence[str] = (), *, as_json: bool) -> int:
    """``lab check``: a run's directory, or any file the checker can read; ``options`` are the checker's."""
    data, talk = consoles()
    if options or _is_no_run(target):
        from checker.__main__ import main as check_file

        file = target / "history.jsonl" if options and target.is_dir() else target
        try:
            return check_file([*(["--json"] if as_json else []), *options, "--", str(file)])
        except SystemExit as error:  # the usage was wrong, and said so
            return ExitCode(int(error.code or 0))
    from lab.analysis.comparison import judge_again
    from lab.report.terminal import print_ending, print_judgement
    from lab.run.execution import Timings

    timings = Timings()
    try:
        directory, judgement = judge_again(target, timings)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise LabError(
            f"the run cannot be read: {error.strerror or error}",
            where=str(error.filename or target),
            hint="`ls -l` shows who may read it",
        ) from None
    if as_json:
        sys.stdout.write(directory.verdict.read_text(encoding="utf-8"))
    else:
        print_judgement(data, directory.path.name, judgement)
        print_ending(data, directory.path, judgement, timings.seconds)
    if judgement.exit_code != ExitCode.EXPECTED:
        talk.print(f"repeat: lab check {shlex.quote(str(target))}", markup=False, soft_wrap=True)
    return judgement.exit_code


def list_command(*, libraries: bool, consensus: bool, as_json: bool) -> int:
    """``lab list``."""
    from lab.scenario.library import summaries

    data, _ = consoles()
    rows = summaries(libraries=libraries, consensus=consensus)
    if as_json:
        data.print_json(data=[msgspec.to_builtins(row) for row in rows])
        return ExitCode.EXPECTED
    width = max(len(row.name) for row in rows)
    for row in rows:
        control = f" (control: {row.control})" if row.control else ""
        data.print(f"{row.name:<{width}}  {row.title}{control}", markup=False, soft_wrap=True)
    return ExitCode.EXPECTED


def claims_command(*, as_json: bool) -> int:
    """``lab list --claims``."""
    from lab.report.tables import claim_table, print_table
    from lab.scenario.claims import claim_rows

    rows = claim_rows()
    data, _ = consoles()
    if as_json:
        data.print_json(data=msgspec.to_builtins(rows))
    else:
        print_table(data, claim_table(rows))
    return ExitCode.EXPECTED


def verdicts_command(
    names: list[str],
    repeat: int,
    jobs: int,
    on: str,
    out: Path,
    markdown: Path | None,
    *,
    libraries: bool,
    as_json: bool,
) -> int:
    """``lab verdicts``: 0 if everything came out as expected, 1 or 3 if not."""
    from lab.batch.verdicts import cases, exit_code, own_directory, run_all, to_json, usable
    from lab.report.progress import ended_runs
    from lab.report.tables import print_table, verdict_markdown, verdict_table
    from lab.scenario.library import summaries
    from lab.scenario.load import load_scenario
    from lab.substrates import AUTO, choose
    from lab.substrates.execute import Interrupted, execute

    data, talk = consoles()
    for name in names:
        load_scenario(name)  # a misspelt name is told before anything is run
    if on != AUTO:
        choose(on)
    known = summaries(libraries=libraries)
    if libraries:
        known = usable(known, on, lambda line: talk.print(line, markup=False))
    if names and not libraries:
        known = (*known, *summaries(libraries=True), *summaries(consensus=True))
    lines = cases(names, known)
    reports = own_directory(out)
    try:
        with ended_runs(talk, repeat * sum(len(line.scenarios) for line in lines)) as on_end:
            rows = execute(run_all(lines, reports, repeat=repeat, jobs=jobs, on=on, on_end=on_end))
    except Interrupted:
        talk.print("interrupted: what was running was stopped", style="yellow")
        return ExitCode.INTERRUPTED
    if markdown is not None:
        markdown.write_text(verdict_markdown(rows), encoding="utf-8")
    if as_json:
        sys.stdout.buffer.write(to_json(rows))
    else:
        print_table(data, verdict_table(rows))
    for run in (run for row in rows for run in row.runs if not run.as_expected):
        talk.print(f"repeat: {run.repeat}", markup=False, soft_wrap=True)
    return exit_code(rows)


def campaign_command(
    task: Task,
    seeds: str,
    jobs: int | None,
    cluster: str | None,
    out: Path,
    *,
    resume: bool,
    as_json: bool,
) -> int:
    """``lab campaign``: 0 if every seed came out as expected, 1 or 3 if not."""
    from lab.report.campaign import campaign_progress, print_tally
    from lab.search.campaign import exit_code, identity_bytes, parse_seeds, run_campaign, runner
    from lab.search.tally import ResultFile
    from lab.substrates.execute import Interrupted, execute

    data, talk = consoles()
    wanted = parse_seeds(seeds)
    run = runner(jobs, cluster)
    path = out / f"campaign-{task.name}.jsonl"
    with ResultFile(path, identity_bytes(task), resume=resume) as results:
        kept = sum(seed in results.results for seed in wanted)
        known = f", {kept} of them known already" if kept else ""
        talk.print(f"{task.name}: {len(wanted)} seeds{known} · {path}", markup=False)
        try:
            with campaign_progress(talk, len(wanted)) as on_result:
                tally = execute(run_campaign(task, wanted, results, run, on_result))
        except Interrupted:
            talk.print(
                f"interrupted: {len(results.results)} results are kept, --resume goes on", style="yellow"
            )
            return ExitCode.INTERRUPTED
    if as_json:
        data.print_json(data=tally.to_dict())
    else:
        print_tally(data, tally, task.repeat)
    return exit_code(tally)


def show_command(scenario: str) -> int:
    """``lab show``."""
    from lab.scenario.load import load_scenario

    sys.stdout.write(load_scenario(scenario).text)
    return ExitCode.EXPECTED


def schema_command() -> int:
    """``lab schema``."""
    from lab.scenario.schema import json_schema

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2) + b"\n")
    return ExitCode.EXPECTED


def doctor_command(*, as_json: bool) -> int:
    """``lab doctor``: 0 if local runs are possible, 3 otherwise."""
    from lab.api.doctor import diagnose, render

    data, _ = consoles()
    diagnosis = diagnose()
    if as_json:
        data.print_json(data=diagnosis.to_dict())
    else:
        render(diagnosis, data)
    return diagnosis.exit_code


def setup_command() -> int:
    """``lab setup``."""
    from lab.api.doctor import render, setup

    data, talk = consoles()
    diagnosis = setup(lambda line: talk.print(line, markup=False, style="dim"))
    render(diagnosis, data)
    return diagnosis.exit_code


def down_command() -> int:
    """``lab down``: 0 if nothing is left, 3 if a container engine could not be asked or did not remove it."""
    from lab.substrates.cleanup import sweep

    data, talk = consoles()
    swept = sweep(everywhere=True)
    for run in swept:
        words = run.words if run.run_id else f"whether containers were left is not known: {run.not_removed}"
        data.print(f"{run.run_id}: {words}" if run.run_id else words, markup=False, soft_wrap=True)
    if not swept:
        data.print("nothing was left running")
    if all(run.not_removed is None for run in swept):
        return ExitCode.EXPECTED
    kept = any(run.run_id and run.not_removed for run in swept)
    gone = f"; if that engine is gone for good, remove the run's file in {state_dir()}" if kept else ""
    talk.print(f"  hint: let the engine answer, then repeat lab down{gone}", markup=False, soft_wrap=True)
    return ExitCode.UNKNOWN


def build_images_command(redis_image: str | None, *, consensus: bool) -> int:
    """``lab images build``."""
    from lab.substrates.docker.images import build

    data, talk = consoles()
    tell = partial(talk.print, markup=False, style="dim")
    for name in build(redis_image, tell, consensus=consensus):
        data.print(name, markup=False)
    return ExitCode.EXPECTED


def list_images_command(*, as_json: bool) -> int:
    """``lab images list``."""
    from lab.substrates.docker.images import present

    data, _ = consoles()
    found = present()
    if as_json:
        data.print_json(data=[asdict(image) for image in found])
        return ExitCode.EXPECTED
    width = max((len(image.name) for image in found), default=0)
    for image in found:
        data.print(f"{image.name:<{width}}  {image.size_bytes // 10**6:>4} MB  on {image.base}", markup=False)
    if not found:
        data.print("none: lab images build makes them")
    return ExitCode.EXPECTED


def remove_images_command() -> int:
    """``lab images rm``."""
    from lab.substrates.docker.images import remove

    data, _ = consoles()
    for name in remove():
        data.print(f"removed {name}", markup=False)
    return ExitCode.EXPECTED


def _repeat_command(scenario: str, overrides: list[str], seed: int, substrate: str) -> str:
    words = ["lab", "run", scenario, "--seed", str(seed), "--on", substrate]
    for override in overrides:
        words += ["--set", override]
    return shlex.join(words)
