"""The clients of this broker: their mailboxes, subscriptions and advertisements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from latecomer.core.effects import Deliver, Drop, Put, Trim
from latecomer.core.interest import Interest
from latecomer.core.mailbox import Mailbox
from latecomer.core.orders import Orders
from latecomer.model.event import Event
from latecomer.model.filters import Filter, filter_matches
from latecomer.model.ids import ClientId
from latecomer.model.record import Kind
from latecomer.model.slots import Stream

Disk = Mapping[str, Mapping[str, Mapping[int | str, object]]]
"""What a broker finds when it starts: table, group, key, value."""


@dataclass(slots=True)
class Clients:
    """Mailboxes by client, and who subscribed to what."""

    orders: Orders
    interest: Interest
    mailbox_max: int
    mailboxes: dict[ClientId, Mailbox] = field(default_factory=dict)
    subscribers: dict[Filter, dict[ClientId, None]] = field(default_factory=dict)
    advertisers: dict[Filter, dict[ClientId, None]] = field(default_factory=dict)
    shared: dict[Filter, int] = field(default_factory=dict)
    """Filters of shared subscriptions with members here, and in how many groups."""
    receivers: dict[ClientId, Callable[[Event, int], None]] = field(default_factory=dict)
    """How MQTT sessions take what is theirs; a client that is not here has a mailbox."""
    lacking: dict[Stream, dict[ClientId, Callable[[Event, int], None]]] = field(default_factory=dict)
    """By stream, how sessions take what this broker has had and they have not (`session/cuts`)."""
    deliver_shared: Callable[[Event, int], None] = lambda event, hops: None
    """Hands an event to the groups of shared subscriptions it was meant for."""

    def recover(self, disk: Disk) -> None:
        """Find everything as it was; nobody is connected."""
        for client, number in disk.get("client", {}).get("", {}).items():
            assert isinstance(number, int)
            self._mailbox(str(client)).number = number
        for client, waiting in disk.get("mailbox", {}).items():
            mailbox = self._mailbox(client)
            for number in sorted(waiting, key=int):
                event = waiting[number]
                assert isinstance(event, Event)
                mailbox.waiting.append((int(number), event))
                mailbox.number = max(mailbox.number, int(number))
        for client, filters in disk.get("subscription", {}).items():
            for filter in filters.values():
                assert isinstance(filter, Filter)
                self._enter(client, filter, self.subscribers, self._mailbox(client).subscriptions)
                self.interest.subscribe(filter)
        for client, filters in disk.get("advertisement", {}).items():
            for filter in filters.values():
                assert isinstance(filter, Filter)
                self._enter(client, filter, self.advertisers, self._mailbox(client).advertisements)
                self.interest.advertise(filter)

    def connected(self, client: ClientId, connection: int) -> None:
        mailbox = self._mailbox(client)
        mailbox.connection = connection
        self.orders.note(Kind.CONNECTED, client=client, count=len(mailbox.waiting))
        for number, event in mailbox.waiting:
            self.orders.effects.append(Deliver(client, mailbox.connection, number, event))

    def disconnected(self, client: ClientId) -> None:
        mailbox = self.mailboxes.get(client)
        if mailbox is not None:
            mailbox.connection = 0
            self.orders.note(Kind.DISCONNECTED, client=client)

    def subscribe(self, client: ClientId, filter: Filter) -> None:
        mailbox = self._mailbox(client)
        if self._enter(client, filter, self.subscribers, mailbox.subscriptions):
            self.orders.writes.append(Put("subscription", client, str(filter), filter))
            self.orders.note(Kind.SUBSCRIBED, client=client, filter=str(filter))
            self.interested(filter)

    def unsubscribe(self, client: ClientId, filter: Filter) -> None:
        mailbox = self.mailboxes.get(client)
        if mailbox is not None and self._leave(client, filter, self.subscribers, mailbox.subscriptions):
            self.orders.writes.append(Drop("subscription", client, str(filter)))
            self.orders.note(Kind.UNSUBSCRIBED, client=client, filter=str(filter))
            self.uninterested(filter)

    def interested(self, filter: Filter) -> None:
        """Some client of this broker asks for it."""
        self.interest.subscribe(filter)
        self.interest.changed()

    def uninterested(self, filter: Filter) -> None:
        """One client less asks for it."""
        if filter not in self.subscribers and filter not in self.shared:
            self.interest.unsubscribe(filter)
        self.interest.changed()

    def advertise(self, client: ClientId, filter: Filter) -> None:
        mailbox = self._mailbox(client)
        if self._enter(client, filter, self.advertisers, mailbox.advertisements):
            self.orders.writes.append(Put("advertisement", client, str(filter), filter))
            self.orders.note(Kind.ADVERTISED, client=client, filter=str(filter))
            self.interest.advertise(filter)

    def unadvertise(self, client: ClientId, filter: Filter) -> None:
        mailbox = self.mailboxes.get(client)
        if mailbox is not None and self._leave(client, filter, self.advertisers, mailbox.advertisements):
            self.orders.writes.append(Drop("advertisement", client, str(filter)))
            self.orders.note(Kind.UNADVERTISED, client=client, filter=str(filter))
            if filter not in self.advertisers:
                self.interest.unadvertise(filter)

    def deliver(self, clients: Iterable[ClientId], event: Event, hops: int) -> None:
        """Hand an event to these clients, or keep it for them."""
        orders = self.orders
        name = str(event.id)
        for client in clients:
            if (receiver := self.receivers.get(client)) is not None:
                receiver(event, hops)
                continue
            mailbox = self.mailboxes[client]
            number = 0
            if event.reliable:
                if len(mailbox.waiting) >= self.mailbox_max:
                    self._drop_oldest(mailbox)
                number = mailbox.put(event)
                orders.writes.append(Put("mailbox", client, number, event))
            elif not mailbox.connection:
                continue  # an unreliable event is for those who are there
            orders.note(Kind.DELIVERED, client=client, topic=event.topic, event=name, hops=hops)
            if mailbox.connection:
                orders.effects.append(Deliver(client, mailbox.connection, number, event))

    def deliver_again(self, stream: Stream, clients: Iterable[ClientId], event: Event, hops: int) -> None:
        """An event that this broker has had, for those of its clients that lack it."""
        lacking = self.lacking.get(stream, {})
        for client in [client for client in clients if client in lacking]:
            lacking[client](event, hops)

    def confirm(self, client: ClientId, number: int) -> None:
        mailbox = self.mailboxes.get(client)
        if mailbox is None:
            return
        number = min(number, mailbox.number)
        if mailbox.confirm(number):
            self.orders.writes.append(Trim("mailbox", client, number + 1))
            self.orders.writes.append(Put("client", "", client, number))

    def advertised(self, event: Event) -> bool:
        """Whether the publisher announced events like this one."""
        mailbox = self.mailboxes.get(event.publisher)
        if mailbox is None:
            return False
        return any(filter_matches(f, event.topic, event.attributes) for f in mailbox.advertisements)

    def _drop_oldest(self, mailbox: Mailbox) -> None:
        number, event = mailbox.waiting.popleft()
        self.orders.writes.append(Drop("mailbox", mailbox.client, number))
        self.orders.note(
            Kind.DROPPED, client=mailbox.client, event=str(event.id), topic=event.topic, detail="mailbox full"
        )

    def _mailbox(self, client: ClientId) -> Mailbox:
        mailbox = self.mailboxes.get(client)
        if mailbox is None:
            mailbox = self.mailboxes[client] = Mailbox(client)
        return mailbox

    @staticmethod
    def _enter(
        client: ClientId, filter: Filter, all_of: dict[Filter, dict[ClientId, None]], own: dict[Filter, None]
    ) -> bool:
        if filter in own:
            return False
        own[filter] = None
        all_of.setdefault(filter, {})[client] = None
        return True

    @staticmethod
    def _leave(
        client: ClientId, filter: Filter, all_of: dict[Filter, dict[ClientId, None]], own: dict[Filter, None]
    ) -> bool:
        if filter not in own:
            return False
        del own[filter]
        del all_of[filter][client]
        if not all_of[filter]:
            del all_of[filter]
        return True
