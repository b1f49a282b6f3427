"""Groups: a short ranked list of significant groups, made from all maximal bicliques; arrays in, arrays out.

- `null_model` scores groups, with effective degrees (`maximum_entropy`) if degrees force edges.
- `candidates` keeps the best bicliques while they stream past; `vertex_scores` scores vertices.
- `growth` enlarges candidates and `partner_seeds` to groups that may lack edges. `bystanders` removes members with
  little activity in them. `selection` combines these as runs publish them.
- `listing` makes one list of all groups, without `near_copies`. `halo` ranks the vertices closest to a group.
- `reference`, `reference_selection` and `reference_halo` are the specification.

Public names are imported from their modules on first use.
"""

TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
    from mbe_stage.groups.bystanders import GrownGroups, without_bystanders
    from mbe_stage.groups.candidates import Candidates, CandidateSink
    from mbe_stage.groups.growth import Grown, GrowthSchedule, grow
    from mbe_stage.groups.halo import Halos, halos
    from mbe_stage.groups.members import GroupMembers
    from mbe_stage.groups.null_model import UNIT, NullModel, surprise_of
    from mbe_stage.groups.selection import grown_above_chance, grown_partners, seed_rows
    from mbe_stage.groups.vertex_scores import EdgeScores, degree_percentiles, edge_sqrt, share_size

__all__ = [
    "UNIT",
    "CandidateSink",
    "Candidates",
    "EdgeScores",
    "GroupMembers",
    "Grown",
    "GrownGroups",
    "GrowthSchedule",
    "Halos",
    "NullModel",
    "degree_percentiles",
    "edge_sqrt",
    "grow",
    "grown_above_chance",
    "grown_partners",
    "halos",
    "seed_rows",
    "share_size",
    "surprise_of",
    "without_bystanders",
]

# No module may share its name with a public name: importing the module would overwrite that name.
_NAMES = {
    "bystanders": ("GrownGroups", "without_bystanders"),
    "candidates": ("CandidateSink", "Candidates"),
    "growth": ("Grown", "GrowthSchedule", "grow"),
    "halo": ("Halos", "halos"),
    "members": ("GroupMembers",),
    "null_model": ("UNIT", "NullModel", "surprise_of"),
    "selection": ("grown_above_chance", "grown_partners", "seed_rows"),
    "vertex_scores": ("EdgeScores", "degree_percentiles", "edge_sqrt", "share_size"),
}

if not TYPE_CHECKING:
    from mbe_stage.lazy_names import lazy

    __getattr__, __dir__ = lazy(__name__, _NAMES, __all__)
