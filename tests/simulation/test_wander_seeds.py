"""Fault seeds of clients that wander in bulk, and a look at what they draw: a generator that never moves anybody proves
nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from latecomer.core.session.limits import NEVER_S
from latecomer.messages.hand_over import Ask, Rows, Standing, Want
from latecomer.messages.link import LinkMessage
from latecomer.sim.chaos import Life
from latecomer.sim.sides import Observer
from latecomer.sim.soak import judge
from latecomer.sim.transcript import Digest
from latecomer.sim.wander_chaos import WanderChaos, live_wander
from latecomer.sim.wander_fuses import FRAMES
from latecomer.sim.wander_moments import OFTEN, RECIPES
from tests.simulation.blocks import blocks
from tests.simulation.test_mqtt_seeds import told

SEEDS, FEW = 120, 40
"""With LATECOMER_TEST_ALL=1, and without."""
BLOCK = 20
DRAWS = 300
"""Seeds within which everything that can happen has."""
AT_HOME = 20
"""Seeds lived by clients that do not move."""


@pytest.mark.parametrize("start", blocks(FEW, SEEDS, BLOCK))
def test_every_promise_is_kept(start: int) -> None:
    failed = [verdict for seed in range(start, start + BLOCK) if (verdict := judge(seed, "wander")).violations]
    assert not failed, "\n".join(map(told, failed))


def test_a_client_between_two_sessions_may_know_packet_ids_of_both() -> None:
    """c4 begins anew at b1, which is alone, and then comes back to b2 and its old session: packet ids of QoS 2 that it
    holds from b1 say nothing about those that b2 sends."""
    assert not judge(4_972_345_042, "wander").violations


def test_a_client_between_two_sessions_remembers_packet_ids() -> None:
    """c0 has two sessions, and gets a publication from b3, which dies before it has the PUBREC. When b3 is back it
    sends the same packet id again, marked as a duplicate: the client must know it still."""
    assert not judge(3_890_392_282, "wander").violations


def test_an_older_session_stays_the_older_one_when_it_moves() -> None:
    """c5 goes on at b6, which is alone. Its older session is handed from b1 to b5, and c5 comes there before b6 is
    back: what b6 published for both sessions comes twice, which is among what is not promised."""
    assert not judge(3_890_392_254, "wander").violations


def test_of_two_brokers_that_tell_the_other_to_end_its_session_the_certain_one_is_right() -> None:
    """c1 begins anew at b1, whose question is stuck in a link, and seconds later at b3. Then both brokers tell the
    other to end its session: b1 cannot know how long its question was under way, b3 knows that its own is younger."""
    assert not judge(3_890_392_356, "wander").violations


def test_a_will_is_not_published_because_its_client_went_on() -> None:
    """b2 serves c1 through b4. The tree is lost before the CONNACK is there, and c1 goes on with a session of b4: the
    will that it left at b2 waits for c1 to connect again, and it has, when b2 is told to end its session."""
    assert not judge(1_794_976_722, "wander").violations


@pytest.mark.parametrize("seed", [1_794_983_788, 1_794_983_881, 1_794_984_135])
def test_of_two_sessions_the_one_that_stays_is_remembered(seed: int) -> None:
    """c4 begins anew at b5 while b1 has its old session. Their keeper is told of b5's, of b1's, and that the latter has
    ended: then b5 must tell of its own again."""
    assert not judge(seed, "wander").violations


@pytest.mark.parametrize("seed", [1_794_984_008, 1_794_984_214])
def test_a_broker_that_restarts_before_it_knows_that_a_session_was_taken(seed: int) -> None:
    """b3 promised c6 to b2, which took it, and restarts: it tells others that it has c6, and a moment later that it has
    not. Then b2 must tell again that it has."""
    assert not judge(seed, "wander").violations


@pytest.mark.parametrize("seed", [1_794_984_482, 1_794_984_591])
def test_of_a_promised_session_its_old_broker_tells_nobody(seed: int) -> None:
    """b1 is about to tell others of c1 when it promises c1 to b3: they would hear it behind the word of b3."""
    assert not judge(seed, "wander").violations


@pytest.mark.parametrize("seed", [766_243_309_332, 774_996_662_644, 776_984_749_305])
def test_leftovers_follow_what_their_broker_published(seed: int) -> None:
    """A broker has leftovers of what its own clients published, which waits for its turn to leave: the new session is
    to have that first, or it would not know the leftovers for the same."""
    assert not judge(seed, "wander").violations


@pytest.mark.parametrize("seed", [768_321_796_920, 773_072_167_767, 776_984_749_184])
def test_leftovers_may_be_where_the_new_session_begins(seed: int) -> None:
    """A client goes on at the broker that has leftovers for it, kept for a session of another broker."""
    assert not judge(seed, "wander").violations


def test_who_begins_anew_is_not_owed_what_is_left_over_later() -> None:
    """c2 goes on at b4, and then begins anew at b2. b3 is told by b4 first that its session is to end, and keeps what
    waits in it: c2 does not want it any more."""
    assert not judge(3_589_953_931, "wander").violations


def test_what_a_broker_says_may_wait_for_its_disk() -> None:
    """b2 says how long c0 has been away, and the frame leaves a tenth of a second later: that time does not count
    against the session."""
    assert not judge(416_614_075, "wander").violations


@pytest.mark.parametrize("seed", [1_794_972_829, 1_794_972_992, 1_794_974_477, 1_794_974_520, 1_794_974_526])
def test_sessions_that_stay_at_home(seed: int) -> None:
    """A tree is lost before the CONNACK is there, and the will was published for a client that waited. A session that
    ends while it is asked for hides an older one. A connection fails while its goodbye waits for credit (thrice)."""
    assert not judge(seed, "wander").violations


@pytest.mark.parametrize("seed", [3_589_953_829, 5_384_932_479])
def test_a_clean_start_that_waited_is_served_after_a_newer_connection(seed: int) -> None:
    """The client left the connection open on which it had asked for a new session: that session begins late, and the
    one that the client has had since ends."""
    assert not judge(seed, "wander").violations


@pytest.mark.parametrize("seed", [3_589_953_764, 3_589_954_161])
def test_which_connection_a_broker_asks_another_to_serve(seed: int) -> None:
    """The client has a newer connection to the same broker when the question leaves again over a link that was made
    again, or when it leaves at last, after the disk."""
    assert not judge(seed, "wander").violations


def test_a_question_that_waited_for_a_link_is_about_the_connection_that_was_there() -> None:
    """b2 asks b1 to serve c3, but their link is down. When the question leaves, another connection of c3 waits at b2,
    with the same CONNECT: the tunnel that b2 gives up at once was not for that one."""
    assert not judge(3_890_392_262, "wander").violations


def test_a_session_may_begin_for_a_connection_that_its_client_has_given_up() -> None:
    """c1 asks for a new session at b2, which is cut off, does not wait, and begins one at b1. That one has ended when
    b2 begins the first, of which c1 knows nothing when it finds it: c1 subscribes again."""
    assert not judge(768_010_446_582, "wander").violations


def test_what_was_chosen_for_a_session_that_ends_elsewhere_is_handed_on() -> None:
    """c1, of a group, went on at b1. Its old session at b2 ends, and c4 gets what had been chosen for it, late."""
    assert not judge(773_072_167_849, "wander").violations


def test_a_broker_that_dies_late_is_waited_for() -> None:
    """b2, which has the session of c0, dies after the last fault was taken back, and c0 begins anew at b5: there are
    two sessions until b2 is back."""
    assert not judge(770_716_353_784, "wander").violations


def test_of_three_sessions_of_a_client_one_stays() -> None:
    """c0 has sessions at b1, b3 and b5, whose ages cannot be told apart. b3 tells both others to end theirs, and must
    remember both when b5 says the same to it: otherwise each ends its own."""
    assert not judge(767_390_017_856, "wander").violations


def test_of_two_brokers_one_may_end_its_session_long_after_it_was_told_to() -> None:
    """b6 tells b3 to end its session of c8, which waits for b3 to settle. Meanwhile b6, whose client has left, lets b3
    compare the two sessions again: it must know for ever what it said, or both end."""
    assert not judge(557_482_064, "wander").violations


def test_a_doubt_that_comes_up_while_the_session_moves_goes_with_it() -> None:
    """The session of c3 is on its way from b1 to b3 when b2 tells b1 that it has an older one."""
    assert not judge(1_556_092_271, "wander").violations


def test_a_promised_session_ends_twice_if_its_client_begins_anew() -> None:
    """b1 has taken the session of c3 and dies before b2 knows. c3 begins anew at b2: either broker publishes the will
    of the session that ends there."""
    assert not judge(1_556_092_592, "wander").violations


def test_restored_subscriptions_are_those_that_others_were_told_last() -> None:
    """c4 leaves a subscription at b1, which is cut off, and its session there expires. b3 restores the subscription:
    that is not promised, and c4 is told that its subscriptions were restored."""
    assert not judge(769_892_029_639, "wander").violations


def test_a_hand_over_is_over_when_the_client_is_back_although_nobody_can_be_told() -> None:
    """The session of c2 is on its way from b2 to b1 when their link breaks. c2 comes back to b2, and leaves with its
    will: that is published in time, although the frame that ends the hand-over waits for the link."""
    assert not judge(2_207_143_083, "wander").violations


def test_a_will_may_be_published_between_two_questions_for_its_session() -> None:
    """b3 hands the session of c4 over to b2. Then everything comes at once that b1 had to say: it asks for the session,
    gives it up and asks again, since c4 asked it for a new one meanwhile. The will is due in between."""
    assert not judge(1_084_028_084, "wander").violations


def test_a_session_that_begins_between_two_trees_is_in_doubt_because_of_everybody() -> None:
    """c2 begins anew at b3, which has no tree that is ready. b2, which has an older session, is not in the next tree:
    it is asked when it is back."""
    assert not judge(2_508_257_317, "wander").violations


def test_a_client_whose_connect_nobody_reads_connects_again() -> None:
    """c2 begins anew at b6, which is stopped, and asks b2 for its session on another connection. The first CONNECT is
    taken out of the life, and the client has to know."""
    assert not judge(1_794_987_996, "wander").violations


def test_the_checkers_have_nothing_against_clients_that_stay() -> None:
    for seed in range(AT_HOME):
        life = WanderChaos(seed, None, moving=False)
        assert not life.run().violations, f"seed {seed}"
        assert not life.clients.moves


def test_a_seed_is_a_life() -> None:
    digests = []
    for seed in (3, 3, 4):
        digests.append(digest := Digest())
        live_wander(seed, digest)
    one, again, other = (digest.value() for digest in digests)
    assert one == again
    assert one != other, "different seeds are different runs"


# -- the generator -----------------------------------------------------------------------------------------------------


class Frames(Observer):
    """Counts what frames of hand-overs say."""

    def __init__(self, seen: Counter[str]) -> None:
        self.seen = seen

    def sent(self, now: int, sender: str, receiver: str, frames: Sequence[LinkMessage]) -> None:
        for frame in frames:
            if isinstance(frame, Ask) and frame.digest:
                self.seen["subscriptions brought"] += 1
            elif isinstance(frame, Standing) and frame.known:
                self.seen["subscriptions brought rightly"] += 1
            elif isinstance(frame, Rows) and frame.outline:
                self.seen["outlines"] += 1
            elif isinstance(frame, Want) and frame.lacking:
                self.seen["outlines that the log cannot fill"] += 1


class Watched(WanderChaos):
    """A life that counts what happens in it."""

    def __init__(self, seed: int, seen: Counter[str]) -> None:
        self.seen = seen
        super().__init__(seed, None)
        self.world.observe(Frames(seen))

    def _fault(self, kind: str) -> None:
        self.seen[f"fault {kind}"] += 1
        super()._fault(kind)

    def _join(self, id: str) -> None:
        super()._join(id)
        client = self.clients.clients[id]
        self.seen[f"version {client.version}"] += 1
        self.seen[f"expiry {client.expiry_s}"] += 1

    def run(self) -> Life:
        life = super().run()
        clients, stays = self.clients, self.ledger.stays
        self.seen["moves"] += clients.moves
        self.seen["told to try again later"] += clients.unavailable
        self.seen["strangers refused"] += clients.strangers_refused
        self.seen["dropped"] += life.dropped
        for name, count in self.fuses.fired.items():
            frame, _, strike = name.partition(" ")
            self.seen[f"fuse {frame}"] += count
            self.seen[f"strike {strike}"] += count
        for recipe, count in self.moments.came.items():
            self.seen[f"moment {recipe.act}"] += count
        for stay in (stay for stays_of_one in stays.by_client.values() for stay in stays_of_one):
            if stay.pipe.connect.will is not None:
                self.seen[f"will published {stays.wills[stay.pipe.connect.will.topic]}"] += 1
            self.seen["new session"] += stay.pipe.connect.clean_start
        for pipes in clients.pipes.of_client.values():
            self.seen["tunnels"] += sum(bool(pipe.home) for pipe in pipes)
            self.seen["two at once"] += sum(pipe.rival for pipe in pipes)
        return life


SELDOM = ("fuse Want", "fuse Fetch", "fuse Offer")
"""Frames of long queues, of operators, and of brokers that were interrupted in the one moment that matters."""
EXPECTED = {
    *(f"fault {kind}" for kind in Watched(0, Counter())._faults),
    *("version 4", "version 5", "expiry 0", "expiry 1", "expiry 3", "expiry 8", f"expiry {NEVER_S}"),
    *("moves", "told to try again later", "strangers refused", "dropped", "new session", "two at once"),
    *("will published 0", "will published 1", "outlines", "outlines that the log cannot fill"),
    *("subscriptions brought", "subscriptions brought rightly", "tunnels"),
    *{f"fuse {frame}" for frame in FRAMES}.difference(SELDOM),
    *(f"moment {recipe.act}" for recipes in (RECIPES, *(often for _, often in OFTEN.values())) for recipe in recipes),
    *(f"strike {strike}" for strike in ("crash", "torn", "cut", "partition", "deafen", "pause", "hop", "break")),
}


@pytest.mark.parametrize("part", [0.9, pytest.param(1.0, marks=pytest.mark.long)])
def test_everything_that_can_go_wrong_does(part: float) -> None:
    seen: Counter[str] = Counter()
    for seed in range(DRAWS):
        Watched(seed, seen).run()
        if sum(seen[name] > 0 for name in EXPECTED) >= part * len(EXPECTED):
            return
    pytest.fail(f"not within {DRAWS} seeds: {sorted(name for name in EXPECTED if not seen[name])}")
