"""The ground: cells in rows and columns, a broker in the middle of each, and clusters of neighbours."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EARTH_KM = 6371.0
DEGREE_KM = 111.2
NEAR = 0.3826
"""How far a point of a square is from its middle on average, in sides."""
NOWHERE = -1


class Ground(msgspec.Struct, frozen=True):
    """A box on the map, cut into cells; cells are numbered by row from the south, and by column from the west."""

    rows: int = 20
    columns: int = 60
    south: float = 29.0
    west: float = -126.0
    north: float = 49.0
    east: float = -66.0

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    @property
    def height(self) -> float:
        """Of a cell, in degrees."""
        return (self.north - self.south) / self.rows

    @property
    def width(self) -> float:
        return (self.east - self.west) / self.columns

    def cell_of(self, lat: Floats, lon: Floats) -> Ints:
        """The cell of each point, `NOWHERE` outside the box."""
        row = np.floor((lat - self.south) / self.height).astype(np.int64)
        column = np.floor((lon - self.west) / self.width).astype(np.int64)
        inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
        return np.where(inside, row * self.columns + column, NOWHERE)

    def middles(self) -> tuple[Floats, Floats]:
        """Latitude and longitude of the brokers."""
        row, column = np.divmod(np.arange(self.cells), self.columns)
        return self.south + (row + 0.5) * self.height, self.west + (column + 0.5) * self.width

    def kilometres(self, other: Ground | None = None) -> Floats:
        """[cells, cells of the other] between their middles; within a cell as far as a point is from its middle."""
        far = kilometres(self.middles(), (other or self).middles())
        if other is None:
            np.fill_diagonal(far, self.near_km())
        return far

    def near_km(self) -> Floats:
        """[cells] from a point of a cell to its middle, on average."""
        lat, _ = self.middles()
        area: Floats = (self.height * DEGREE_KM) * (self.width * DEGREE_KM * np.cos(np.radians(lat)))
        return NEAR * np.sqrt(area)

    def clusters(self, size: int) -> Ints:
        """[cells] the cluster of each: neighbours, so many in each or one less.

        The box is cut in two across its longer side, in proportion to the clusters on either side, until each part is
        one cluster.
        """
        found = np.zeros(self.cells, np.int64)
        parts = [(np.arange(self.cells), max(1, round(self.cells / size)))]
        made = 0
        while parts:
            cells, wanted = parts.pop()
            if wanted == 1:
                found[cells] = made
                made += 1
                continue
            row, column = np.divmod(cells, self.columns)
            tall = (np.ptp(row) + 1) * self.height > (np.ptp(column) + 1) * self.width
            order = np.lexsort((column, row) if tall else (row, column))
            low = wanted // 2
            cut = round(len(cells) * low / wanted)
            parts += [(cells[order[cut:]], wanted - low), (cells[order[:cut]], low)]
        return found


PAPER = Ground()
"""Which 20 × 60 cells is not said; these are the ones of `latecomer checkins --box paper`."""


def kilometres(some: tuple[Floats, Floats], others: tuple[Floats, Floats]) -> Floats:
    """[some, others] along great circles."""
    lat_a, lon_a = (np.radians(values)[:, None] for values in some)
    lat_b, lon_b = (np.radians(values)[None, :] for values in others)
    half = np.sin((lat_b - lat_a) / 2) ** 2 + np.cos(lat_a) * np.cos(lat_b) * np.sin((lon_b - lon_a) / 2) ** 2
    far: Floats = 2 * EARTH_KM * np.arcsin(np.sqrt(np.minimum(1.0, half)))
    return far
