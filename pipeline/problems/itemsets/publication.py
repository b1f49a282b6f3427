"""Closed itemsets, as the pipeline sees them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mbe_stage.pipeline.problems.base import Publication, deferred
from mbe_stage.pipeline.problems.itemsets.section import ItemsetsSection

if TYPE_CHECKING:
    import pyarrow as pa

    from mbe_stage.bicliques.results import Detail
    from mbe_stage.pipeline.config.model import Config
    from mbe_stage.pipeline.publish.manifest import Manifest


class ItemsetsPublication(Publication):
    """See `pipeline.problems.base.Publication`."""

    problem = "itemsets"
    about = "Enumerate the closed itemsets of baskets."
    section_name = "itemsets"
    section = ItemsetsSection
    unit = ("closed itemset", "closed itemsets")
    counted = "itemsets"
    instead = "min_support, min_count and max_len are asked of itemsets"
    next_command = "mbe top {}"
    is_resumable = True
    of_tables_only = ("maximal", "min_confidence", "lattice")
    of_whole_searches = MappingProxyType(
        {
            "min_confidence": "rules are made of all closed itemsets",
            "lattice": "the lattice is made of all closed itemsets",
        }
    )

    query = deferred(f"{__package__}.collector:to_query")
    collector = deferred(f"{__package__}.collector:ItemsetCollector")
    count_sink = deferred("mbe_stage.bicliques.results:CountSink")
    compile_steps = deferred("mbe_stage.bicliques.keys:compile_steps")
    page = deferred(f"{__package__}.rows:page")
    check = deferred("mbe_stage.pipeline.verify.itemsets:check")
    check_steps = deferred("mbe_stage.pipeline.verify.itemsets:compile_steps")
    largest = deferred(f"{__package__}.rows:largest")
    top = deferred(f"{__package__}.rows:top")

    def query_shape(self, config: Config) -> Any:
        from mbe_stage.bicliques.query import BicliqueQuery

        return BicliqueQuery(min_left=2)

    def schemas(self, config: Config, key_types: tuple[Any, Any]) -> Mapping[str, pa.Schema]:
        from mbe_stage.pipeline.problems.itemsets.schemas import ITEMSETS, LATTICE, RULES, items

        rules = {} if config.problem_section.min_confidence is None else {"rules.parquet": RULES}
        covers = {"lattice.parquet": LATTICE} if config.problem_section.lattice else {}
        return {"itemsets": ITEMSETS, "items.parquet": items(key_types[1]), **rules, **covers}

    def detail(self, config: Config | None) -> Detail:
        from mbe_stage.bicliques.results import Detail

        is_maximal = config is not None and config.problem_section.maximal
        return Detail.MEMBERS if is_maximal else Detail.RIGHT

    def beside_number(self, manifest: Manifest) -> str:
        return f", in {manifest.counts['min_count']:,} baskets or more"


PUBLICATION = ItemsetsPublication()
