"""MQTT sessions: what a broker knows of a client, connected or not, and what it owes it.

limits        what an operator may set
state         the nouns: Session, Subscription, Parcel, and the table of stages a delivery goes through
delivery      from the network to the client: grading, packet ids, flow control, acknowledgements
publishing    from the client to the network: PUBLISH, PUBREL, topic aliases
subscribing   SUBSCRIBE and UNSUBSCRIBE, content filters, retained messages
past          more nouns: Recall, what a session remembers of the past, and what is held meanwhile
holding       live events that wait for history
recall        history for a subscription, the marker behind it, and the seam to what is live
sessions      CONNECT to DISCONNECT and beyond: take-over, expiry, wills
"""
