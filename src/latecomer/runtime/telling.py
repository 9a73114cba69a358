"""Records that an operator reads in the log or counts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from latecomer.model.record import Kind, Record
from latecomer.runtime.client_log import CLIENT_KINDS, client_line

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver

KINDS = frozenset(
    (Kind.DROPPED, Kind.REFUSED, Kind.REJECTED, Kind.LINKED, Kind.UNLINKED, Kind.KEEPING, Kind.NOT_KEEPING)
)

log = logging.getLogger("latecomer")


def told_kinds() -> frozenset[Kind]:
    """The records to tell of at the present log level."""
    return KINDS | CLIENT_KINDS if log.isEnabledFor(logging.DEBUG) else KINDS


def tell(record: Record, driver: Driver) -> None:
    """Log or count one of them."""
    if record.kind in CLIENT_KINDS:
        log.debug("%s", client_line(record, driver))
    elif record.kind is Kind.DROPPED:
        driver.counters.drop(record.detail)
    elif record.kind is Kind.REFUSED:
        driver.counters.refuse(record.detail.partition(":")[0][:80])
        driver.refusals.line(
            logging.INFO,
            record.detail.partition(":")[0][:80],
            "refused %s %s: %s",
            record.client,
            record.topic or record.filter,
            record.detail,
        )
    elif record.kind is Kind.REJECTED:
        driver.counters.refuse("link")
        log.warning("link to %s rejected: %s", record.peer, record.detail)
    elif record.kind is Kind.LINKED or record.kind is Kind.UNLINKED:
        log.info("link to %s %s", record.peer, "up" if record.kind is Kind.LINKED else "down")
    else:
        log.info(
            "the store %s for %s", "answers" if record.kind is Kind.KEEPING else "no longer answers", record.filter
        )
