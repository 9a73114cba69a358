/* The packets of MQTT 3.1.1 and 5 that a load generator needs; section numbers are those of the MQTT 5 specification. */
#ifndef LOAD_MQTT_H
#define LOAD_MQTT_H

#include "load_net.h"

enum { CONNECT = 1, CONNACK, PUBLISH, PUBACK, SUBSCRIBE = 8, SUBACK, DISCONNECT = 14 };
enum { KEEP_ALIVE_S = 240, RECEIVE_MAXIMUM = 0x21, SESSION_EXPIRY = 0x11 };

static bool v5; /* the protocol version of every connection */

typedef struct {
    unsigned type, flags;
    const uint8_t *body;
    size_t length;
} Packet;

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

static uint8_t *put16(uint8_t *p, unsigned value) {
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
    return p + 2;
}

static uint8_t *put_varint(uint8_t *p, size_t value) {
    do {
        *p = value & 127;
        value >>= 7;
        if (value) *p |= 128;
        p++;
    } while (value);
    return p;
}

/* Bytes the variable byte integer takes, 0 when it is not all there yet. */
static size_t get_varint(const uint8_t *p, size_t available, size_t *value) {
    *value = 0;
    for (size_t i = 0; i < 4 && i < available; i++) {
        *value |= (size_t)(p[i] & 127) << (7 * i);
        if (!(p[i] & 128)) return i + 1;
    }
    if (available >= 4) die("malformed length from the broker");
    return 0;
}

static uint8_t *put_text(uint8_t *p, const char *text, size_t length) {
    p = put16(p, (unsigned)length);
    memcpy(p, text, length);
    return p + length;
}

/* Take the next whole packet from the buffer; its body stays valid until the next read. */
static bool next_packet(Buffer *in, Packet *packet) {
    size_t available = held(in), length;
    if (available < 2) return false;
    const uint8_t *p = in->bytes + in->start;
    size_t digits = get_varint(p + 1, available - 1, &length);
    if (!digits || available < 1 + digits + length) return false;
    packet->type = p[0] >> 4;
    packet->flags = p[0] & 15;
    packet->body = p + 1 + digits;
    packet->length = length;
    in->start += 1 + digits + length;
    return true;
}

static void finish(Conn *c, unsigned first, const uint8_t *body, size_t length) {
    uint8_t *p = reserve(&c->out, length + 5), *start = p;
    *p++ = (uint8_t)first;
    p = put_varint(p, length);
    memcpy(p, body, length);
    c->out.end += (size_t)(p - start) + length;
}

static void put_connect(Conn *c, const char *client_id, bool clean) {
    uint8_t body[256], *p = put_text(body, "MQTT", 4);
    *p++ = v5 ? 5 : 4;
    *p++ = clean ? 2 : 0;
    p = put16(p, KEEP_ALIVE_S);
    if (v5) {
        *p++ = clean ? 0 : 5;
        if (!clean) {
            *p++ = SESSION_EXPIRY;
            p = put16(put16(p, 0), 3600);
        }
    }
    p = put_text(p, client_id, strlen(client_id));
    finish(c, CONNECT << 4, body, (size_t)(p - body));
}

static void put_disconnect(Conn *c) { finish(c, DISCONNECT << 4, NULL, 0); }

/* The value of a two-byte property in a list of properties, or a default (2.2.2.2). */
static unsigned find_property16(const uint8_t *p, size_t length, uint8_t wanted, unsigned otherwise) {
    const uint8_t *end = p + length;
    size_t ignored;
    while (p < end) {
        switch (*p++) {
        case 0x01: case 0x17: case 0x19: case 0x24: case 0x25: case 0x28: case 0x29: case 0x2A:
            p += 1;
            break;
        case 0x13: case 0x21: case 0x22: case 0x23:
            if (p[-1] == wanted) return get16(p);
            p += 2;
            break;
        case 0x02: case 0x11: case 0x18: case 0x27:
            p += 4;
            break;
        case 0x0B:
            p += get_varint(p, (size_t)(end - p), &ignored);
            break;
        case 0x26:
            p += 2 + get16(p);
            p += 2 + get16(p);
            break;
        default: /* text and binary data */
            p += 2 + get16(p);
        }
    }
    return otherwise;
}

static Packet await_packet(Conn *c, unsigned type) {
    Packet packet;
    while (!next_packet(&c->in, &packet))
        if (receive(c, 4096) <= 0) die("no answer (packet type %u) from the broker", type);
    if (packet.type != type) die("the broker answered with packet type %u instead of %u", packet.type, type);
    return packet;
}

/* The socket is still blocking here. */
static void send_all(Conn *c) {
    while (held(&c->out)) {
        ssize_t n = transmit(c);
        if (n <= 0) die("the broker closed the connection");
        c->out.start += (size_t)n;
    }
}

static void send_connect(Conn *c, const char *client_id, bool clean) {
    put_connect(c, client_id, clean);
    send_all(c);
}

/* How many QoS 1 messages the broker takes at a time. */
static unsigned await_connack(Conn *c) {
    Packet packet = await_packet(c, CONNACK);
    if (packet.length < 2 || packet.body[1]) die("connection refused, code %u", packet.length < 2 ? 0 : packet.body[1]);
    if (!v5) return 65535;
    size_t length, digits = get_varint(packet.body + 2, packet.length - 2, &length);
    return find_property16(packet.body + 2 + digits, length, RECEIVE_MAXIMUM, 65535);
}

enum { FILTERS_PER_SUBSCRIBE = 100, FILTER_LENGTH = 64 };

static void send_subscribe(Conn *c, char filters[][FILTER_LENGTH], int count, unsigned qos) {
    uint8_t body[FILTERS_PER_SUBSCRIBE * (FILTER_LENGTH + 3) + 3], *p = put16(body, 1);
    if (v5) *p++ = 0;
    for (int i = 0; i < count; i++) {
        p = put_text(p, filters[i], strlen(filters[i]));
        *p++ = (uint8_t)qos;
    }
    finish(c, SUBSCRIBE << 4 | 2, body, (size_t)(p - body));
    send_all(c);
}

static void await_suback(Conn *c, int count, unsigned qos) {
    Packet packet = await_packet(c, SUBACK);
    if (packet.length < 2 + (size_t)count) die("SUBACK too short");
    for (int i = 0; i < count; i++)
        if (packet.body[packet.length - 1 - (size_t)i] != qos) die("a subscription was not granted");
}

#endif
