"""Two polls of a site right after each other: what differs between them is noise, and masked from then on."""

from __future__ import annotations

from msgspec.structs import replace

from pollerd.daemon.faults import Faults
from pollerd.daemon.finding import Finding
from pollerd.daemon.fleet import Fleet
from pollerd.daemon.workshop import Workshop
from pollerd.detection import learn_from_twins
from pollerd.model import Evidence, OutcomeKind
from pollerd.storage import Store
from pollerd.telemetry import Instruments

_PROMPT_SECONDS = 30.0
"""A poll that starts so long after it was chosen as a twin is none: the page has had time to change."""
_LEARNED_HERE_BYTES = 16 * 1024


class Twins:
    """Looks at changes that a twin found, and tells noise from news."""

    def __init__(
        self, fleet: Fleet, store: Store, workshop: Workshop, faults: Faults, instruments: Instruments
    ) -> None:
        self._fleet, self._store, self._workshop = fleet, store, workshop
        self._faults, self._instruments = faults, instruments

    async def judged(self, finding: Finding, first: bytes | None) -> Finding:
        """The finding of a change as it is once noise is known; as it was, where it is of no twin.

        `first` is the content of the poll before, None where it is not kept. The mask that the twins teach stands in
        the finding's baseline; twins that are the same under it found no change.
        """
        detection, memory = finding.detection, finding.memory
        if detection is None or detection.content is None or first is None or not self._is_twin(finding):
            return finding
        try:
            earlier = await self._store.load_content_before(memory.site_id, memory.content_id or 0)
            given = (first, detection.content, detection.baseline, earlier)
            if len(first) + len(detection.content) <= _LEARNED_HERE_BYTES:
                baseline, same = learn_from_twins(*given)
            else:
                baseline, same = await self._workshop.do(learn_from_twins, *given)
        except Exception as error:  # noqa: BLE001
            self._faults.report(memory, error)
            return finding
        if baseline.mask == memory.baseline.mask:
            return finding
        self._instruments.masks_learned.inc()
        if not same:
            return replace(finding, detection=replace(detection, baseline=baseline))
        quiet = Evidence(changed=False) if detection.evidence is not None else None
        unchanged = replace(detection, kind=OutcomeKind.UNCHANGED, baseline=baseline, evidence=quiet, content=None)
        return replace(finding, detection=unchanged)

    def _is_twin(self, finding: Finding) -> bool:
        sites, slot = self._fleet.sites, finding.slot
        chosen_at = float(sites.twin_at[slot])
        prompt = finding.outcome.started_at - chosen_at <= _PROMPT_SECONDS
        return bool(sites.site_id[slot] == finding.site_id and chosen_at > sites.last_poll[slot] and prompt)
