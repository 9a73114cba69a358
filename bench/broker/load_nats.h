/* The part of the NATS protocol, and of JetStream on top of it, that a load generator needs.
 * https://docs.nats.io/reference/reference-protocols/nats-protocol, …/nats_api_reference */
#ifndef LOAD_NATS_H
#define LOAD_NATS_H

#include <stdio.h>

#include "load_net.h"

typedef struct {
    char subject[128], reply[128];
    const uint8_t *header, *body; /* valid until the next read */
    size_t header_length, length;
} Message;

static void put_bytes(Conn *c, const void *bytes, size_t length) {
    memcpy(reserve(&c->out, length), bytes, length);
    c->out.end += length;
}

static void put_words(Conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_words(Conn *c, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text) die("a line of NATS is too long");
    put_bytes(c, text, (size_t)length);
}

/* Publish a text, as requests to JetStream are. */
static void put_request(Conn *c, const char *subject, const char *reply, const char *body) {
    put_words(c, "PUB %s %s %zu\r\n", subject, reply, strlen(body));
    put_bytes(c, body, strlen(body));
    put_bytes(c, "\r\n", 2);
}

/* The next message; what is not a message is dealt with. False: none is complete yet. */
static bool next_message(Conn *c, Message *message) {
    for (;;) {
        Buffer *in = &c->in;
        const uint8_t *line = in->bytes + in->start;
        const uint8_t *end = held(in) ? memchr(line, '\n', held(in)) : NULL;
        if (!end) return false;
        char text[512], *word[6];
        size_t line_length = (size_t)(end - line) + 1, size;
        if (*line == 'I' || *line == '+') { /* INFO is long, and told again when something changes */
            in->start += line_length;
            continue;
        }
        if (line_length >= sizeof text) die("a line from the server is too long");
        memcpy(text, line, line_length);
        text[line_length] = 0;
        if (!strncmp(text, "PING", 4)) {
            in->start += line_length;
            put_bytes(c, "PONG\r\n", 6);
            continue;
        }
        if (!strncmp(text, "PONG", 4)) {
            in->start += line_length;
            *message = (Message){.subject = "PONG"};
            return true;
        }
        if (strncmp(text, "MSG ", 4) && strncmp(text, "HMSG ", 5)) die("the server said: %s", text);
        int words = 0;
        char *rest = text;
        for (char *part; words < 6 && (part = strtok_r(rest, " \r\n", &rest));) word[words++] = part;
        bool headers = *text == 'H', replies = words == (headers ? 6 : 5);
        size = (size_t)atol(word[words - 1]);
        if (held(in) < line_length + size + 2) return false;
        message->header_length = headers ? (size_t)atol(word[words - 2]) : 0;
        message->header = line + line_length;
        message->body = message->header + message->header_length;
        message->length = size - message->header_length;
        snprintf(message->subject, sizeof message->subject, "%s", word[1]);
        snprintf(message->reply, sizeof message->reply, "%s", replies ? word[3] : "");
        in->start += line_length + size + 2;
        return true;
    }
}

/* While the socket is blocking. */
static void send_nats(Conn *c) {
    while (held(&c->out)) {
        ssize_t n = transmit(c);
        if (n <= 0) die("the server closed the connection");
        c->out.start += (size_t)n;
    }
}

/* While the socket is blocking: until the server has done everything before. */
static void await_pong(Conn *c) {
    Message message;
    send_nats(c);
    while (!next_message(c, &message))
        if (receive(c, 4096) <= 0) die("no answer from the server");
}

static void open_nats(Conn *c, int index, const char *host, int port) {
    open_conn(c, PUBLISHER, index, host, port);
    put_words(c, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,"
                 "\"protocol\":1,\"lang\":\"c\",\"version\":\"1\",\"name\":\"bench\"}\r\n"
                 "SUB _INBOX.%d.> 1\r\nPING\r\n", index);
    await_pong(c);
}

static void subscribe_nats(Conn *c, const char *subject) {
    put_words(c, "SUB %s 2\r\nPING\r\n", subject);
    await_pong(c);
}

/* The status of a message that is none: 100 flow control or heartbeat, 404 none, 408 timeout, 409 ended; 0: it is one. */
static int status_of(const Message *message) {
    if (message->header_length < 12 || message->length) return 0;
    return atoi((const char *)message->header + strlen("NATS/1.0 "));
}

static bool is_error(const Message *message) {
    return status_of(message) || memmem(message->body, message->length, "\"error\"", 7);
}

#endif
