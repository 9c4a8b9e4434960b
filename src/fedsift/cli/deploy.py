# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``fedsift deploy``: a federation across organisations. Here: kits, keys, data and policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsift.cli.common import AsJson, console, echo_json, errors_as_exit_codes, shown
from fedsift.cli.tables import table
from fedsift.errors import ConfigError

if TYPE_CHECKING:
    from fedsift.deploy.kits import Kit, PartyFacts
    from fedsift.deploy.site_files import PublicKey

app = typer.Typer(
    name="deploy",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Set up and run a federation of organisations, on NVIDIA FLARE.",
)

KitPath = Annotated[Path, typer.Argument(help="Folder of a startup kit.", metavar="KIT")]

_WHO = {
    "hub": "the operator of the hub",
    "organisation": "the organisation",
    "submitter": "the person who submits jobs",
}


@app.command()
def init(
    project: Annotated[Path, typer.Argument(help="Project file.", metavar="PROJECT.toml")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the kits and the certificate authority.")
    ],
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Issue only this kit (again); repeatable.")
    ] = None,
    with_keys: Annotated[
        bool,
        typer.Option("--with-keys", help="Create and pin all sealing keys here; for trials only."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Issue certificates and one startup kit per member."""
    with errors_as_exit_codes():
        from fedsift.deploy.kits import make_kits
        from fedsift.deploy.project import load_project
        from fedsift.deploy.provision import FOLDER

        kits = make_kits(load_project(project), out, only=only, with_keys=with_keys)
        if as_json:
            folders = {kit.name: str(kit.folder) for kit in kits}
            echo_json({"kits": folders, "authority": str(out / FOLDER)})
            return
        made = table("Startup kits", "for", "who gets it", "folder")
        for kit in kits:
            made.add_row(shown(kit.name), _WHO[kit.kind], shown(kit.folder))
        screen = console()
        screen.print(made)
        screen.print(
            f"[bold]Authority:[/bold] {shown(out / FOLDER)}. Anyone with it can issue certificates "
            "in any member's name: keep it away from the hub operator.",
        )
        if with_keys:
            screen.print(
                "[bold red]All sealing keys were made here: this is for trials.[/bold red] In a "
                "real federation every member makes its own with 'fedsift deploy key'."
            )
        else:
            screen.print(
                "Hand over every kit in a way you trust, then delete it here. Next, at every "
                "member: 'fedsift deploy key' and 'fedsift deploy pin'."
            )


@app.command()
def key(
    kit: KitPath,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the public key to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the public sealing key of a kit; creates the key if there is none."""
    with errors_as_exit_codes():
        from fedsift.deploy.kits import load_kit
        from fedsift.deploy.site_files import make_key, public_text, write_public

        loaded = load_kit(kit)
        made = make_key(loaded.settings, loaded.name, loaded.kind)
        target = out or Path(f"{loaded.name}.key.toml")
        write_public(target, made)
        if as_json:
            text = public_text(made.public)
            echo_json({"name": made.name, "public": text, "fingerprint": made.fingerprint})
            return
        screen = console()
        screen.print(f"Public key of {shown(made.name)}: {public_text(made.public)}")
        screen.print(f"Fingerprint: {made.fingerprint}")
        screen.print(
            f"Written to {shown(target)}. Send it to every other member; they compare the "
            "fingerprint with you over another channel, such as the phone, before they pin it."
        )


@app.command()
def pin(
    kit: KitPath,
    files: Annotated[
        list[Path], typer.Argument(help="Key files of other members.", metavar="KEY.toml...")
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Allow a new key to replace a pinned one.")
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Accept keys of members who joined later.")
    ] = False,
) -> None:
    """Pin the public keys of other members in a kit."""
    with errors_as_exit_codes():
        from fedsift.deploy.kits import add_members, load_kit
        from fedsift.deploy.site_files import pin_keys, read_public

        loaded = load_kit(kit)
        keys = [read_public(path) for path in files]
        if add:
            loaded = add_members(loaded, {public.name: public.kind for public in keys})
        for public in keys:
            _refuse_stranger(loaded, public)
        pin_keys(loaded.settings, keys, replace=replace)
        made = table(f"Pinned in the kit of {shown(loaded.name)}", "member", "fingerprint")
        for public in keys:
            made.add_row(shown(public.name), public.fingerprint)
        screen = console()
        screen.print(made)
        missing = _not_pinned(loaded)
        if missing:
            screen.print(f"Still to be pinned: {shown(', '.join(missing))}.")


@app.command()
def party(
    kit: KitPath,
    data: Annotated[Path, typer.Option("--data", help="CSV or Parquet file.")],
    ids: Annotated[
        list[str] | None, typer.Option("--id", help="Column that identifies a row; repeatable.")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="The only column a job may use as the label.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", help="A column jobs may use; all if not given; repeatable."),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option("--categorical", help="Numeric column that holds categories; repeatable."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="File with a [policy] table.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set an organisation's data and policy; checks both and lists what could be disclosed."""
    with errors_as_exit_codes():
        from fedsift.deploy.kits import PartyData, load_kit, load_policy, set_party
        from fedsift.deploy.site_files import load_site
        from fedsift.methods.registry import schemas
        from fedsift.protocol import Policy

        loaded = load_kit(kit, "organisation")
        kinds = frozenset(kind for schema in schemas().values() for kind in schema.kinds)
        rules = None if policy is None else load_policy(policy, kinds)
        named = PartyData(
            data,
            tuple(ids or ()),
            label,
            None if columns is None else tuple(columns),
            tuple(categorical or ()),
        )
        facts = set_party(loaded, named, rules)
        own = Policy.from_mapping(load_site(loaded.settings).policy or {})
        rows = list(_disclosures(own))
        if as_json:
            echo_json(
                {
                    "party": loaded.name,
                    "n_rows": facts.n_rows,
                    "features": facts.features,
                    "policy": own,
                    "disclosures": rows,
                }
            )
            return
        _print_party(loaded, facts, rows, own.methods)


def _disclosures(policy: Any) -> Any:
    """What the methods of a policy could disclose, and whether it lets them."""
    from fedsift.methods.registry import joint_declarations, list_methods

    takes = [m for m in list_methods() if policy.methods is None or m.name in policy.methods]
    declared = [("any", declaration) for declaration in joint_declarations()]
    declared += [(m.name, declaration) for m in takes for _, declaration in m.declarations()]
    for method, declaration in declared:
        if declaration.optional and not policy.allows(declaration):
            continue
        yield {
            "method": method,
            "about": declaration.about,
            "kind": declaration.kind,
            "what": declaration.text,
            "learner": declaration.receiver,
            "allowed": policy.allows(declaration),
        }


def _print_party(
    kit: Kit, facts: PartyFacts, rows: list[dict[str, Any]], methods: tuple[str, ...] | None
) -> None:
    screen = console()
    numeric = sum(kind == "numeric" for kind in facts.features.values())
    screen.print(
        f"[bold]{shown(kit.name)}[/bold] brings {facts.n_rows} rows and {len(facts.features)} "
        f"features ({numeric} numeric, {len(facts.features) - numeric} categorical)."
    )
    if methods is not None:
        screen.print(f"It takes part in: {shown(', '.join(methods) or 'no method')}.")
    columns = ("method", "as", "kind", "who learns it", "what", "policy")
    made = table("What a job could disclose, by the role it gives the organisation", *columns)
    seen = set()
    for row in rows:
        key = (row["method"], row["about"], row["kind"], row["learner"], row["what"])
        if key not in seen:
            made.add_row(*map(shown, key), "allows" if row["allowed"] else "forbids")
        seen.add(key)
    screen.print(made)
    screen.print("A job that needs what the policy forbids is refused before any data is used.")
    screen.print(f"Written to {shown(kit.settings)}; it stays on this machine.")


def _refuse_stranger(kit: Kit, public: PublicKey) -> None:
    known = {*kit.members, *kit.submitters} - {kit.name}
    if public.name not in known:
        raise ConfigError(
            f"{public.name!r} is not another member of the federation.",
            f"The others are: {', '.join(sorted(known))}.",
            "Check the key file; if the member joined later, pass --add.",
        )
    if (public.kind == "submitter") != (public.name in kit.submitters):
        raise ConfigError(
            f"The key file calls {public.name!r} {public.kind}, and the kit does not.",
            "Both must agree.",
            "Ask the owner of the key for another file.",
        )


def _not_pinned(kit: Kit) -> list[str]:
    from fedsift.deploy.site_files import read_sections, settings_file

    sections = read_sections(settings_file(kit.settings))
    pinned = {
        *sections.get("keys", {}).get("pinned", {}),
        *sections.get("accepts", {}).get("submitters", {}),
    }
    others = [*kit.members, *(() if kit.kind == "submitter" else kit.submitters)]
    return [name for name in others if name not in pinned and name != kit.name]
