"""Numbers for values: what cannot travel through egglog's integers goes there as an index into a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from egraph_opt.ir.graph import AttrValue


@dataclass
class Interner:
    """Gives each distinct value (by type and ``repr``, so 0.0, -0.0 and NaN stay what they are) the next number."""

    values: list[AttrValue] = field(default_factory=list[AttrValue])
    _ids: dict[tuple[type, str], int] = field(default_factory=dict, repr=False)

    def id(self, value: AttrValue) -> int:
        """The number of ``value``."""
        key = (type(value), repr(value))
        found = self._ids.setdefault(key, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found

    def __getitem__(self, number: int) -> AttrValue:
        return self.values[number]

    def __len__(self) -> int:
        return len(self.values)
