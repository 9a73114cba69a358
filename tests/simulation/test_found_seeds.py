"""Seeds that failed once, each under the name of what it found. They are lived again in full."""

from __future__ import annotations

import pytest

from latecomer.sim.soak import judge

FOUND = {
    "a broker that restarted at once stamped retained messages ahead of its clock": (
        "mqtt",
        (88806312, 659199964, 659200079, 659200106, 659200200, 2181036510),
    ),
    "the checker demanded order of what was handed on by a member that left its group": ("mqtt", (850715376,)),
    "the checker took a message that came live for another event of the same publication": (
        "history",
        (88803268, 88804632),
    ),
    "the checker demanded the nearest store after a move that came while it answered": ("history", (88803256,)),
    "the checker asked a store that was dead": ("history", (175225819,)),
    "a store took events ahead of earlier ones that their origin still owed it": ("history", (420212902,)),
    "the checker demanded events that burnt with the only disk that had them": ("history", (3420780927, 420212600)),
    "the checker demanded an event that its broker had lost in a crash and the store had taken back": (
        "history",
        (88806596,),
    ),
    "an answer was called complete that lacked an event which an absent origin still owed the store": (
        "history",
        (894304683,),
    ),
    "earlier events, which the store lacked, came live behind the later ones that it had": ("history", (133529882,)),
    "the checker demanded order of a publication that was taken late because its refusal never arrived": (
        "history",
        (894304542,),
    ),
    "the checker demanded that a client is let in although a CONNECT that it had given up came behind": (
        "history",
        (262853031,),
    ),
    "the generator numbered publications long before they were published, and others came between": (
        "history",
        (973126684734,),
    ),
    "a broker that was down while a session it had promised moved on told the directory that it still had it": (
        "wander",
        (3935503355,),
    ),
    "the checker demanded a session whose client's publications still waited in a queue of one event at a time": (
        "wander",
        (756685565,),
    ),
    # b1 began with the last ten that it had and died. b5 went on with all that stood behind the place, as it should
    # (`core.retrieval`), and still had events of b/#, which it had kept before and b1 had not.
    "the checker counted the last events by the store that ended the answer, not by the one that began": (
        "history",
        (3503324901,),
    ),
    # b4 asked for the last 50 of a/# while it was cut off. b2 had six then, and 48 more when it began its answer. Two
    # of the newest 50 expired before their turn, so 48 came.
    "the checker demanded events older than the last so many, since two of those reached the store later and expired": (
        "history",
        (1359670789,),
    ),
    # Nothing came through from b1 to b2 for six seconds, but connections were made, so the session went on.
    "a new store claimed what was published while its subscription was held up on a link that was half dead": (
        "history",
        (3503358921, 3503354607),
    ),
    # It became quiet 3 s after the limit, having fetched slices one event at a time from stores that had nothing new.
    "stores that differed by events that had expired fetched the same slices from one another again and again": (
        "history",
        (3503354797,),
    ),
    "an event that came in the first moment of a store came twice, since its crash left the event and not the mark": (
        "history",
        (179502445682,),
    ),
    # A link came back when all was quiet in a tree without it, and the next tree was a longer way to the store.
    "the checker demanded the distance to a store in a tree that came behind the answer": ("history", (2529,)),
    "the checker did not know that a new session can end before the broker of the old one was heard": (
        "wander",
        (3935502803,),
    ),
    # A client asks twice, gets the second answer, acknowledges half of it, moves, and gets the other half again as DUP.
    "the checker took repetitions behind the end of a second answer for older events": (
        "travel",
        (3430653903,),
    ),
    "a broker that had just restarted confirmed subscriptions while the others still counted on its former life": (
        "mqtt",
        (3503343095, 3503344871, 3503360120),
    ),
    "a retained message that was lost with its tree, and that its origin could not keep, never came to one broker": (
        "mqtt",
        (3503338108,),
    ),
    # b3 began to answer while b1 was cut off, and b1 went on when it was back: what b1's clients had published until
    # then stands before the place that b3 had reached.
    "the checker demanded what the first store of an answer lacked when it was cut off from the second": (
        "history",
        (887904563,),
    ),
    # The reader had to let go of live events that it held; b5 gave it these, which is as near as b2.
    "the checker demanded one store although another one, as near, gave what the reader had let go of": (
        "history",
        (887928218,),
    ),
    "an event was on its way through the new broker to the old one when its origin died, and nobody delivered it": (
        "wander",
        (341203972,),
    ),
    "what waited in an older session came late, and once more from its origin, with QoS 2": ("wander", (280228311,)),
    "the checker of clients that wander was not told of publications whose refusal never arrived": (
        "wander",
        (280236176, 341811633),
    ),
    # Two cut-off brokers began sessions of c1 at the same moment: b1 for its connection 37, b3 for the older 34.
    "the checker took the older of two new sessions for the younger, when its broker began it last": (
        "wander",
        (341203682,),
    ),
    # b2 took the session of c3, and its word was stuck in a link that was made again before the tree was lost. c3 began
    # anew at b1, which had promised the session and ended it after its patience, with the will from before the move.
    "the checker counted a will that came with a promised session whose new broker could not say it had it": (
        "wander",
        (280230698,),
    ),
    # b4 was stopped, and then read four CONNECTs of c1 at once. Its first three questions reached b1 together.
    "the checker took a CONNECT that a stopped broker had not read for the one which it asked another to serve": (
        "wander",
        (174440888,),
    ),
    "packet ids that came with a session counted as those of its connection until it had one": (
        "wander",
        (174441245, 3917497544),
    ),
    # c3 lost its tunnel with its tree and asked b2, which was promised the session, and started again.
    "a will was published before its client's time to come back was over, since a hand-over had failed": (
        "wander",
        (3917498335,),
    ),
    "a client that came twice was given a session which its home had promised to another broker, and that had it": (
        "wander",
        (280230881,),
    ),
    "who had newer positions kept them from a broker that told older ones before it heard of them": (
        "ring",
        (3590253505,),
    ),
    "a session that began was told that it was the only one, since what was left over waited for a flush": (
        "ring-wander",
        (3590251622, 3590251698),
    ),
    "a change of what crosses slots was told before the word that it changes": ("ring-wander", (7, 54)),
    "a flush of another family was taken for a forged one": ("ring-history", (3590252448,)),
    # b3, the home of c3, died between the CONNECT that came through b2 and its CONNACK, and published the will when it
    # started again; b2 asked again, and c3 left later, with its will.
    "the checker demanded once what home may publish twice: the will of a client that waits while home dies": (
        "wander",
        (3590253623,),
    ),
    # b4 took the CONNECT of c6 in time, by 14 ms, and its disk held the CONNACK back for 234.
    "the checker took the moment when a slow disk let a CONNACK go for that at which its session was found": (
        "wander",
        (3590265138,),
    ),
}


@pytest.mark.parametrize(
    ("clients", "seed"),
    [pytest.param(clients, seed, id=f"{story}-{seed}") for story, (clients, seeds) in FOUND.items() for seed in seeds],
)
def test_a_seed_that_failed_once_keeps_every_promise(clients: str, seed: int) -> None:
    verdict = judge(seed, clients)
    assert not verdict.violations, (verdict.violations[0], verdict.replay)


def test_history_that_was_under_way_comes_late_beside_what_is_asked_for_again() -> None:
    """traveller0 comes to b3, which is alone since b1 died, and begins anew there. What its session at b4 had not
    delivered comes late, as hand-overs promise, beside the history that it asked for again."""
    assert not judge(1_158_256_426, "travel").violations
