"""Where other brokers deviate: tests that may fail when the suite runs against them, with what was seen instead.

Measured with Mosquitto 2.0.11. A name stands for all cases of its test, of which some may pass.
"""

from __future__ import annotations

BARE_CLOSE = "closes without saying why"
NOT_CHECKED = "does not check it"

MOSQUITTO = {
    "test_a_client_at_the_servers_maximum_is_not_punished": "ends a connection that repeats a QoS 2 message",
    "test_a_client_sends_no_subscription_identifier": NOT_CHECKED,
    "test_a_client_that_exceeds_the_servers_maximum_is_told": "refuses the message with 0x97 and goes on",
    "test_a_delayed_will_is_sent_when_clean_start_ends_the_session": "forgets a delayed will when the session ends",
    "test_a_delayed_will_is_sent_when_the_session_ends": "forgets a delayed will of a session without expiry",
    "test_a_goodbye_can_be_malformed": BARE_CLOSE,
    "test_a_goodbye_with_another_reason_keeps_the_will": "discards the will for every reason but 0x04",
    "test_a_goodbye_with_will_that_ends_the_session_sends_it_at_once": "forgets the delayed will",
    "test_a_malformed_packet_ends_a_3_1_1_connection": NOT_CHECKED,
    "test_a_malformed_packet_is_answered_with_its_reason": "checks some, closes without a reason for others",
    "test_a_message_under_way_does_not_expire": "lets a QoS 2 message expire between PUBLISH and PUBREC",
    "test_a_new_connection_takes_over": BARE_CLOSE,
    "test_a_remaining_length_of_five_bytes_is_malformed": BARE_CLOSE,
    "test_a_repeated_qos_2_message_is_delivered_once": "ends a connection that repeats a QoS 2 message",
    "test_a_second_connect_is_an_error": BARE_CLOSE,
    "test_a_session_survives_take_over": BARE_CLOSE,
    "test_a_share_needs_a_name_and_a_filter": "accepts shares without a name or a filter",
    "test_a_silent_client_is_disconnected": "looks at keep alives every five seconds, and closes without saying why",
    "test_a_text_frame_ends_the_connection": "takes MQTT in text frames",
    "test_an_empty_identifier_is_replaced": BARE_CLOSE,
    "test_an_error_publishes_the_will": BARE_CLOSE,
    "test_an_integer_longer_than_needed_is_malformed": NOT_CHECKED,
    "test_an_unknown_pubrec_is_answered": "gives no reason code",
    "test_an_unknown_pubrel_is_answered": "gives no reason code",
    "test_auth_without_a_method_is_an_error": BARE_CLOSE,
    "test_both_halves_of_a_user_property_are_checked": BARE_CLOSE,
    "test_no_local_on_a_share_is_an_error": NOT_CHECKED,
    "test_no_more_than_the_receive_maximum_is_under_way": "sends one more after an acknowledgement",
    "test_no_retained_messages_for_a_share": "sends retained messages for shares",
    "test_overlapping_subscriptions_deliver_with_the_highest_qos": "delivers to 3.1.1 clients with the lowest QoS",
    "test_properties_of_a_connect_are_checked": "takes authentication data without a method",
    "test_reserved_flags_are_checked": "checks some packets only",
    "test_take_over_across_transports": BARE_CLOSE,
    "test_take_over_with_clean_start": BARE_CLOSE,
    "test_text_properties_are_checked": "closes without saying why; takes wildcards in response topics",
    "test_the_flags_of_auth_are_zero": BARE_CLOSE,
    "test_the_quota_begins_anew_with_each_connection": "sends again without regard to the Receive Maximum",
    "test_the_reason_arrives_although_the_client_goes_on_sending": "does not check the flags of PINGREQ",
    "test_the_servers_goodbye_respects_the_maximum_packet_size": "does not check the flags of PINGREQ",
    "test_the_one_who_takes_over_gets_what_was_under_way": BARE_CLOSE,
    "test_what_only_a_server_sends_is_an_error": NOT_CHECKED,
}

DEVIATIONS = {"mosquitto": MOSQUITTO}
