/* A load generator for MQTT brokers: one thread, one epoll, no library.
 *
 * Publishers send numbered messages, subscribers check that each arrives complete, once and in order. With a window of W,
 * a publisher sends message k+W when message k has reached all its subscribers; with 0 only the socket (QoS 0) or
 * unacknowledged messages (QoS 1) hold it back. Output is coalesced: one write per connection and turn of the loop, so
 * that the generator is not what is measured. One line of JSON is the result; README.md explains its fields.
 *
 *     cc -O2 -o load load.c [-DWITH_TLS -lssl -lcrypto]        ./load --help
 */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/timerfd.h>

#include "load_latency.h"
#include "load_mqtt.h"
#include "load_nats.h"
#include "load_options.h"

enum { UNACKED_MAX = 65000, OUTSTANDING_MAX = 1 << 20, COALESCE = 1 << 16, EVENTS = 512, BATCH = 64 };

typedef struct {
    Conn conn;
    char topic[FILTER_LENGTH]; /* the fixed part of its topics */
    size_t topic_length;
    uint32_t sent, done; /* numbers from 0; done: those below have reached everybody */
    unsigned unacked, quota;
    uint16_t packet_id;
    uint8_t *in_use;    /* by packet id */
    uint16_t *missing;  /* ring: deliveries that message n still lacks; only with several subscribers per publisher */
    bool queued;        /* in the list of those that may send */
} Pub;

typedef struct {
    Conn conn;
    uint32_t *expected; /* next number, by publisher */
} Sub;

static Pub *pubs;
static Sub *subs;
static Conn *idlers;
static Pub **ready;
static int ready_count;
static unsigned fan, window, ring_mask;
static bool stopping;
static struct { uint64_t lost, repeated, wrong, refused, unwanted, closed; } faults;
static uint64_t deliveries, total, last_delivery, chunk_time, began, idle_ns;

/* --- messages ---------------------------------------------------------------------------------------------------- */

static size_t size_of(uint32_t number) {
    if (opt.size == opt.size_max) return (size_t)opt.size;
    return (size_t)opt.size + (number * 2654435761u >> 8) % (unsigned)(opt.size_max - opt.size + 1);
}

static size_t topic_of(const Pub *pub, uint32_t number, char *topic) {
    memcpy(topic, pub->topic, pub->topic_length);
    if (opt.topics == FIXED) return pub->topic_length;
    uint32_t rest = opt.topics == ALL_NEW ? number : number % (uint32_t)opt.topics;
    char digits[10];
    size_t count = 0, length = pub->topic_length;
    do digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    topic[length++] = opt.nats ? '.' : '/';
    while (count) topic[length++] = digits[--count];
    return length;
}

/* A subject of NATS for a topic or filter of MQTT. */
static void to_subject(char *topic) {
    for (; *topic; topic++) *topic = *topic == '/' ? '.' : *topic == '+' ? '*' : *topic;
}

/* What stands before the payload. */
static uint8_t *put_head(Pub *pub, uint8_t *p, const char *topic, size_t topic_length, size_t size) {
    if (opt.nats) {
        p += sprintf((char *)p, "PUB %.*s %zu\r\n", (int)topic_length, topic, size);
        return p;
    }
    *p++ = (uint8_t)(PUBLISH << 4 | opt.qos << 1);
    p = put_text(put_varint(p, 2 + topic_length + (opt.qos ? 2 : 0) + v5 + size), topic, topic_length);
    if (opt.qos) {
        do pub->packet_id++;
        while (!pub->packet_id || pub->in_use[pub->packet_id]);
        pub->in_use[pub->packet_id] = 1;
        pub->unacked++;
        p = put16(p, pub->packet_id);
    }
    if (v5) *p++ = 0; /* no properties */
    return p;
}

static void put_publish(Pub *pub) {
    char topic[FILTER_LENGTH];
    uint32_t number = pub->sent++, who = (uint32_t)pub->conn.index;
    size_t topic_length = topic_of(pub, number, topic), size = size_of(number);
    uint8_t *start = reserve(&pub->conn.out, topic_length + size + 32);
    uint8_t *p = put_head(pub, start, topic, topic_length, size);
    uint64_t now = now_ns();
    memcpy(p, &who, 4);
    memcpy(p + 4, &number, 4);
    memcpy(p + 8, &now, 8);
    memset(p + HEADER, (int)(number & 255), size - HEADER);
    p += size;
    if (opt.nats) p = (uint8_t *)memcpy(p, "\r\n", 2) + 2;
    pub->conn.out.end += (size_t)(p - start);
    if (pub->missing) pub->missing[number & ring_mask] = (uint16_t)fan;
}

static void may_send(Pub *pub) {
    if (pub->queued) return;
    pub->queued = true;
    ready[ready_count++] = pub;
}

static uint32_t due(const Pub *pub) {
    if (opt.rate <= 0) return UINT32_MAX;
    uint64_t all = (uint64_t)((double)(now_ns() - began) / 1e9 * opt.rate) + 1;
    return (uint32_t)((all + (uint64_t)(opt.pubs - 1 - pub->conn.index)) / (uint64_t)opt.pubs);
}

static void send_more(Pub *pub) {
    uint32_t limit = due(pub);
    if (opt.count && opt.count < limit) limit = opt.count;
    do {
        while (!stopping && pub->sent < limit && pub->sent - pub->done < window && pub->unacked < pub->quota &&
               held(&pub->conn.out) < COALESCE)
            put_publish(pub);
        if (!held(&pub->conn.out)) return;
        if (!flush(&pub->conn)) faults.closed++;
    } while (!opt.window && !pub->conn.wants_writable && !faults.closed && now_ns() - chunk_time < 200000);
    /* Saturating: as long as the socket takes it, but not longer than 0.2 ms, for there are subscribers to serve.
       What is then left to send waits for the next turn. */
    if (!opt.window && !pub->conn.wants_writable) may_send(pub);
}

static void reached_one(Pub *pub, uint32_t number, uint64_t sent_at) {
    total++;
    deliveries++;
    if (pub->missing && --pub->missing[number & ring_mask]) return;
    pub->done = number + 1;
    if (sent_at) note_latency(chunk_time - sent_at);
    may_send(pub);
}

static void on_message(Sub *sub, const void *topic, size_t topic_length, const uint8_t *p, size_t size, unsigned qos) {
    uint32_t who, number;
    uint64_t sent_at;
    if (size < HEADER) {
        faults.wrong++;
        return;
    }
    memcpy(&who, p, 4);
    memcpy(&number, p + 4, 4);
    memcpy(&sent_at, p + 8, 8);
    char expected_topic[FILTER_LENGTH];
    bool known = who < (uint32_t)opt.pubs && (!opt.pairs || who == (uint32_t)sub->conn.index);
    if (!known || number >= pubs[who].sent || qos != (unsigned)opt.qos || size != size_of(number) ||
        (size > HEADER && (p[HEADER] != (number & 255) || memcmp(p + HEADER, p + HEADER + 1, size - HEADER - 1))) ||
        topic_of(&pubs[who], number, expected_topic) != topic_length || memcmp(topic, expected_topic, topic_length)) {
        faults.wrong++;
        return;
    }
    uint32_t *expected = &sub->expected[opt.pairs ? 0 : who];
    if (number < *expected) {
        faults.repeated++; /* or late, which is as wrong */
        return;
    }
    for (; *expected < number; ++*expected) { /* a gap: count it, and do not wait for it */
        faults.lost++;
        reached_one(&pubs[who], *expected, 0);
        total--, deliveries--;
    }
    ++*expected;
    last_delivery = chunk_time;
    reached_one(&pubs[who], number, sent_at);
}

static void on_publish(Sub *sub, const Packet *packet) {
    const uint8_t *p = packet->body, *end = p + packet->length;
    unsigned qos = packet->flags >> 1 & 3;
    size_t topic_length = get16(p), skipped;
    const uint8_t *topic = p + 2;
    p = topic + topic_length;
    if (qos) {
        uint8_t *ack = reserve(&sub->conn.out, 4);
        ack[0] = PUBACK << 4;
        ack[1] = 2;
        memcpy(ack + 2, p, 2);
        sub->conn.out.end += 4;
        p += 2;
    }
    if (v5) {
        size_t digits = get_varint(p, (size_t)(end - p), &skipped);
        p += digits + skipped;
    }
    on_message(sub, topic, topic_length, p, p > end ? 0 : (size_t)(end - p), qos);
}

static void on_puback(Pub *pub, const Packet *packet) {
    uint16_t id = get16(packet->body);
    if (!pub->in_use || !pub->in_use[id] || (packet->length > 2 && packet->body[2] >= 0x80)) {
        faults.refused++;
        return;
    }
    pub->in_use[id] = 0;
    pub->unacked--;
    may_send(pub);
}

static void on_packet(Conn *c, const Packet *packet) {
    if (c->role == SUBSCRIBER && packet->type == PUBLISH) on_publish(&subs[c->index], packet);
    else if (c->role == PUBLISHER && packet->type == PUBACK) on_puback(&pubs[c->index], packet);
    else if (packet->type == DISCONNECT) faults.closed++;
    else faults.unwanted++;
}

/* Whatever is complete of what came. */
static void take_input(Conn *c) {
    Packet packet;
    Message message;
    if (!opt.nats)
        while (next_packet(&c->in, &packet)) on_packet(c, &packet);
    else
        while (next_message(c, &message)) {
            if (c->role == SUBSCRIBER)
                on_message(&subs[c->index], message.subject, strlen(message.subject), message.body, message.length, 0);
            else faults.unwanted++;
        }
}

static void on_event(Conn *c, unsigned events) {
    if (events & EPOLLOUT) {
        if (c->role == PUBLISHER) may_send(&pubs[c->index]);
        if (!flush(c)) faults.closed++;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    do {
        ssize_t n = receive(c, READ_CHUNK);
        if (n == 0) faults.closed++;
        if (n <= 0) break;
        chunk_time = now_ns();
        take_input(c);
    } while (more_decrypted(c));
    if (c->role == SUBSCRIBER && held(&c->out) && !flush(c)) faults.closed++; /* acknowledgements */
    if (opt.nats && c->role == PUBLISHER && held(&c->out)) may_send(&pubs[c->index]); /* an answer to PING */
}

/* --- the run ----------------------------------------------------------------------------------------------------- */

/* Subscriptions that no topic of the run matches, from number `next` on; returns how many went into one packet. */
static int send_idle_subscribe(Conn *c, int next, int until) {
    char filters[FILTERS_PER_SUBSCRIBE][FILTER_LENGTH];
    int count = 0;
    for (; count < FILTERS_PER_SUBSCRIBE && next + count < until; count++)
        snprintf(filters[count], FILTER_LENGTH, opt.idle_exact ? "bench/idle/%d" : "+/idle-%d/#", next + count);
    send_subscribe(c, filters, count, 0);
    return count;
}

static int first_idle(int conn) { return (int)((long)opt.idle * conn / opt.idle_conns); }

/* In batches below any listen backlog: ten thousand round trips one after the other would take long. */
static void open_idlers(void) {
    char id[FILTER_LENGTH];
    for (int from = 0; from < opt.idle_conns; from += BATCH) {
        int to = from + BATCH < opt.idle_conns ? from + BATCH : opt.idle_conns;
        for (int i = from; i < to; i++) {
            open_conn(&idlers[i], IDLER, i, opt.host, opt.sub_port);
            snprintf(id, sizeof id, "bench-%s-i%d", opt.run, i);
            send_connect(&idlers[i], id, opt.clean);
        }
        for (int i = from; i < to; i++) {
            await_connack(&idlers[i]);
            for (int next = first_idle(i), until = first_idle(i + 1); !opt.hold && next < until;) {
                int count = send_idle_subscribe(&idlers[i], next, until);
                await_suback(&idlers[i], count, 0);
                next += count;
            }
            go_nonblocking(&idlers[i]);
        }
    }
}

static void open_sub(Sub *sub, int i) {
    char id[FILTER_LENGTH], filter[1][FILTER_LENGTH];
    const char *tail = opt.topics == FIXED ? "" : "/+";
    if (opt.pairs || opt.pubs == 1) snprintf(*filter, FILTER_LENGTH, "bench/%s/%d%s", opt.run, opt.pairs ? i : 0, tail);
    else snprintf(*filter, FILTER_LENGTH, "bench/%s/+%s", opt.run, tail);
    sub->expected = allocate(opt.pairs ? 1 : (size_t)opt.pubs, sizeof *sub->expected);
    if (opt.nats) {
        to_subject(*filter);
        open_nats(&sub->conn, i, opt.host, opt.sub_port);
        sub->conn.role = SUBSCRIBER;
        subscribe_nats(&sub->conn, *filter);
        return;
    }
    open_conn(&sub->conn, SUBSCRIBER, i, opt.host, opt.sub_port);
    snprintf(id, sizeof id, "bench-%s-s%d", opt.run, i);
    send_connect(&sub->conn, id, opt.clean);
    await_connack(&sub->conn);
    send_subscribe(&sub->conn, filter, 1, (unsigned)opt.qos);
    await_suback(&sub->conn, 1, (unsigned)opt.qos);
}

static void open_pub(Pub *pub, int i) {
    char id[FILTER_LENGTH];
    pub->topic_length = (size_t)snprintf(pub->topic, RUN_LENGTH + 24, "bench/%s/%d", opt.run, i);
    if (fan > 1) pub->missing = allocate(ring_mask + 1, sizeof *pub->missing);
    if (opt.nats) {
        to_subject(pub->topic);
        open_nats(&pub->conn, i, opt.host, opt.port);
        pub->quota = UNACKED_MAX;
        return;
    }
    open_conn(&pub->conn, PUBLISHER, i, opt.host, opt.port);
    snprintf(id, sizeof id, "bench-%s-p%d", opt.run, i);
    send_connect(&pub->conn, id, opt.clean);
    pub->quota = await_connack(&pub->conn);
    if (pub->quota > UNACKED_MAX) pub->quota = UNACKED_MAX;
    if (opt.qos) pub->in_use = allocate(65536, 1);
}

static void open_all(void) {
    for (int i = 0; i < opt.subs; i++) {
        open_sub(&subs[i], i);
        go_nonblocking(&subs[i].conn);
    }
    for (int i = 0; i < opt.pubs; i++) {
        open_pub(&pubs[i], i);
        go_nonblocking(&pubs[i].conn);
    }
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6 - (double)idle_ns / 1e9; /* waiting is no work */
}

/* Has everything that was sent arrived and been acknowledged? */
static bool all_done(void) {
    for (int i = 0; i < opt.pubs; i++)
        if (pubs[i].done < pubs[i].sent || pubs[i].unacked || (!stopping && pubs[i].sent < opt.count)) return false;
    return true;
}

static void turn(int timer, int timeout_ms) {
    struct epoll_event events[EVENTS];
    /* Awake, unless told otherwise: a generator that sleeps measures how long this machine takes to wake it up, most of all with a window. */
    uint64_t begun = now_ns(), until = begun + (ready_count ? 0 : (uint64_t)timeout_ms * 1000000);
    int count;
    do count = epoll_wait(epoll_fd, events, EVENTS, opt.sleep && !ready_count ? timeout_ms : 0);
    while (count == 0 && now_ns() < until);
    chunk_time = now_ns();
    idle_ns += chunk_time - begun;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr) {
            on_event(events[i].data.ptr, events[i].events);
            continue;
        }
        uint64_t expirations;
        if (read(timer, &expirations, 8) < 0 && errno != EAGAIN) die("timer: %s", strerror(errno));
        for (int p = 0; p < opt.pubs; p++) may_send(&pubs[p]);
    }
    int senders = ready_count;
    ready_count = 0;
    for (int i = 0; i < senders; i++) { /* a publisher that still has something puts itself in front of those read */
        Pub *pub = ready[i];
        pub->queued = false;
        send_more(pub);
    }
}

static int start_timer(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    double tick = 1e9 / opt.rate; /* above 20,000 a second several messages are due at a tick */
    long ns = tick < 50000 ? 50000 : (long)tick;
    struct timespec step = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    struct itimerspec spec = {.it_interval = step, .it_value = step};
    struct epoll_event event = {.events = EPOLLIN};
    if (timer < 0 || timerfd_settime(timer, 0, &spec, NULL) || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event))
        die("timer: %s", strerror(errno));
    return timer;
}

typedef struct { double seconds, cpu, watched; uint64_t deliveries; bool stalled; } Result;

static Result run(void) {
    Result result = {0};
    uint64_t start = began = chunk_time = last_delivery = now_ns(), warm = start + (uint64_t)(opt.warmup * 1e9);
    uint64_t end = opt.seconds > 0 ? warm + (uint64_t)(opt.seconds * 1e9) : UINT64_MAX;
    uint64_t enough = opt.rate > 0 || !opt.window ? 0 : 2ull * (unsigned)opt.pubs * fan * opt.window;
    double cpu = cpu_seconds(), watched_before = watched_seconds();
    int timer = opt.rate > 0 ? start_timer() : -1;
    bool warming = opt.warmup > 0;
    for (int i = 0; i < opt.pubs; i++) may_send(&pubs[i]);
    while (!faults.closed) {
        turn(timer, 20);
        uint64_t now = now_ns();
        if (warming && now >= warm) { /* what was learnt while warming up does not count */
            warming = false;
            start = now;
            cpu = cpu_seconds();
            watched_before = watched_seconds();
            deliveries = latencies = latency_max = 0;
            memset(histogram, 0, sizeof histogram);
        }
        /* A slow broker gets up to ten times as long: its figure shall not be that of a pause between two windows. */
        if (!stopping && now >= end && (deliveries >= enough || (double)(now - end) / 1e9 > 9 * opt.seconds)) {
            stopping = true;
            result = (Result){(double)(now - start) / 1e9, cpu_seconds() - cpu, watched_seconds() - watched_before, deliveries, false};
        }
        if ((stopping || opt.count) && all_done()) break;
        if ((double)(now - last_delivery) / 1e9 > opt.stall) {
            result.stalled = true;
            break;
        }
    }
    if (result.seconds == 0)
        result = (Result){(double)(last_delivery - start) / 1e9, cpu_seconds() - cpu, watched_seconds() - watched_before,
                          deliveries, result.stalled};
    if (timer >= 0) close(timer);
    stopping = true;
    for (uint64_t until = now_ns() + 30000000; !faults.closed && now_ns() < until;) turn(-1, 5); /* does something come twice? */
    for (int p = 0; p < opt.pubs; p++)
        for (int s = 0; s < opt.subs; s++)
            if (!opt.pairs || s == p) faults.lost += pubs[p].sent - subs[s].expected[opt.pairs ? 0 : p];
    return result;
}

static void disconnect(Conn *c) {
    if (c->fd <= 0) return;
    if (!opt.nats) put_disconnect(c);
    if (held(&c->out)) transmit(c);
    close(c->fd);
}

/* Keep the connections until standard input ends; the harness looks at the broker meanwhile. */
static void hold(double connect_seconds) {
    printf("{\"held\": %d, \"connect_seconds\": %.3f}\n", opt.idle_conns, connect_seconds);
    fflush(stdout);
    while (getchar() != EOF) continue;
    struct epoll_event events[EVENTS];
    printf("{\"lost\": %d}\n", epoll_wait(epoll_fd, events, EVENTS, 0));
}

static void print_result(const Result *r, double connect_seconds) {
    printf("{\"deliveries\": %lu, \"seconds\": %.6f, \"deliveries_per_s\": %.1f, ", r->deliveries, r->seconds,
           r->seconds > 0 ? (double)r->deliveries / r->seconds : 0.0);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, ", percentile_us(.5), percentile_us(.99),
           percentile_us(.999), (double)latency_max / 1e3);
    printf("\"cpu_seconds\": %.4f, \"watched_seconds\": %.6f, \"connect_seconds\": %.3f, \"checked\": %lu, \"stalled\": %s, ", r->cpu, r->watched, connect_seconds, total,
           r->stalled ? "true" : "false");
    printf("\"errors\": {\"lost\": %lu, \"repeated\": %lu, \"wrong\": %lu, \"refused\": %lu, \"unwanted\": %lu, \"closed\": %lu}}\n",
           faults.lost, faults.repeated, faults.wrong, faults.refused, faults.unwanted, faults.closed);
}

int main(int count, char **arguments) {
    parse(count, arguments);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (opt.tls) start_tls();
    fan = opt.pairs ? 1 : (unsigned)opt.subs;
    window = opt.window && opt.window < OUTSTANDING_MAX ? opt.window : OUTSTANDING_MAX;
    for (ring_mask = 1; ring_mask < window; ring_mask *= 2) continue;
    ring_mask--;
    pubs = allocate((size_t)opt.pubs, sizeof *pubs);
    subs = allocate((size_t)opt.subs, sizeof *subs);
    ready = allocate((size_t)opt.pubs, sizeof *ready);
    idlers = allocate((size_t)opt.idle_conns, sizeof *idlers);
    uint64_t start = now_ns();
    if (opt.idle) open_idlers();
    if (!opt.hold) open_all();
    double connect_seconds = (double)(now_ns() - start) / 1e9;
    if (opt.hold) {
        hold(connect_seconds);
    } else {
        usleep((useconds_t)(opt.settle * 1e6));
        Result result = run();
        print_result(&result, connect_seconds);
    }
    for (int i = 0; i < opt.pubs; i++) disconnect(&pubs[i].conn);
    for (int i = 0; i < opt.subs; i++) disconnect(&subs[i].conn);
    for (int i = 0; i < opt.idle_conns; i++) disconnect(&idlers[i]);
    return 0;
}
