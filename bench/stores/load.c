/* A load generator for servers that keep events, by MQTT or NATS JetStream: one thread, no library, awake all the time.
 *
 *     load publish ...   numbered events on 100 topics in turn, each acknowledged; at most a window of them under way
 *     load query ...     stored events: standard input has one request per line,
 *                            filter TAB number of events expected TAB option TAB option ...
 *                        an option is a user property `key=value` for MQTT, a member of the consumer's settings for NATS
 *     load enlist ...    MQTT: begin a session that stays, with a subscription, and leave it
 *     load drain ...     MQTT: come back to it, and take what waited
 *
 * Every event is checked: content, topic, ascending numbers, how many. The result is one line of JSON.
 */
#define _GNU_SOURCE
#include <getopt.h>

#include "load_mqtt.h"
#include "load_nats.h"

enum { PAYLOAD = 256, TOPICS = 100, IDS = 65536, QUERIES_MAX = 4096, CHUNK = 1 << 17, COALESCED = 1 << 16 };
enum { UNSUBSCRIBE = 10, UNSUBACK = 11, USER_PROPERTY = 0x26 };

static struct {
    const char *host, *filter, *stream;
    int port, qos, pubs;
    unsigned count, first, window, batch;
    double stall, seconds;
    bool nats, push, retain, marker, ordered;
} opt = {.host = "127.0.0.1", .filter = "bench/#", .stream = "BENCH", .port = 1883, .qos = 1, .pubs = 1, .window = 20,
         .batch = 5000, .stall = 30, .marker = true, .ordered = true};

static uint64_t idle_ns, last_progress, samples[QUERIES_MAX * 64];
static size_t sample_count;

/* --- events: the same number is the same event everywhere; `fill.py` makes them too --------------------------------- */

static char payload_text[PAYLOAD + 1];

static unsigned value_of(unsigned number) { return (unsigned)((uint64_t)number * 2654435761u >> 16) % 100; }

static const char *payload_of(unsigned number) {
    if (!*payload_text) memset(payload_text, 'x', PAYLOAD);
    char head[64];
    int length = snprintf(head, sizeof head, "{\"n\":%10u,\"value\":%2u,\"pad\":\"", number, value_of(number));
    memcpy(payload_text, head, (size_t)length);
    memcpy(payload_text + PAYLOAD - 2, "\"}", 2);
    return payload_text;
}

static size_t topic_of(unsigned number, char *topic) {
    char between = opt.nats ? '.' : '/';
    memcpy(topic, "bench", 5);
    topic[5] = topic[7] = between;
    topic[6] = (char)('0' + number % TOPICS / 10);
    topic[8] = (char)('0' + number % 10);
    return 9;
}

static int64_t newest = -1; /* number of the event before */

static void check_event(const void *topic, size_t topic_length, const uint8_t *body, size_t length) {
    char expected[16];
    if (length != PAYLOAD || memcmp(body, "{\"n\":", 5)) die("wrong: an event of %zu bytes", length);
    unsigned number = (unsigned)strtoul((const char *)body + 5, NULL, 10);
    if (memcmp(body, payload_of(number), PAYLOAD)) die("wrong: the payload of event %u differs", number);
    if (topic_of(number, expected) != topic_length || memcmp(topic, expected, topic_length))
        die("wrong: event %u on topic %.*s", number, (int)topic_length, (const char *)topic);
    if (opt.ordered && number <= newest) die("out of order: event %u after %ld", number, (long)newest);
    newest = number;
    last_progress = now_ns();
}

/* --- connections ------------------------------------------------------------------------------------------------------ */

static void go_awake(Conn *c) { fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK); }

static bool pour(Conn *c) {
    bool wrote = false;
    while (held(&c->out)) {
        ssize_t n = transmit(c);
        if (n == 0) die("the server closed the connection");
        if (n < 0) break;
        c->out.start += (size_t)n;
        wrote = true;
    }
    return wrote;
}

/* Write, and read once; a turn in which nothing happened counts as waiting. Progress is an event or an acknowledgement:
   a server that only keeps the connection alive has stalled. */
static bool turn(Conn *c) {
    uint64_t begun = now_ns();
    bool moved = pour(c);
    ssize_t n = receive(c, CHUNK);
    if (n == 0) die("the server closed the connection");
    uint64_t now = now_ns();
    if (!moved && n <= 0) idle_ns += now - begun;
    if ((double)(now - last_progress) / 1e9 > opt.stall) die("stalled: nothing for %.0f s", opt.stall);
    return n > 0;
}

static void open_mqtt(Conn *c, const char *client_id, bool clean) {
    open_conn(c, SUBSCRIBER, 0, opt.host, opt.port);
    send_connect(c, client_id, clean);
}

/* --- publish ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    Conn conn;
    unsigned unacked, quota;
    uint16_t id;
    uint64_t sent_at[IDS]; /* by packet id, or by the number in the reply subject; 0: not under way */
} Pub;

static void put_event(Pub *pub, unsigned number) {
    char topic[16];
    size_t length = topic_of(number, topic);
    do pub->id++;
    while (!pub->id || pub->sent_at[pub->id]);
    if (opt.nats) {
        put_words(&pub->conn, "PUB %.*s _INBOX.%d.%u %d\r\n", (int)length, topic, pub->conn.index, pub->id, PAYLOAD);
        put_bytes(&pub->conn, payload_of(number), PAYLOAD);
        put_bytes(&pub->conn, "\r\n", 2);
    } else {
        uint8_t *start = reserve(&pub->conn.out, PAYLOAD + 64), *p = start;
        *p++ = (uint8_t)(PUBLISH << 4 | 1 << 1 | opt.retain);
        p = put_text(put_varint(p, 2 + length + 2 + v5 + PAYLOAD), topic, length);
        p = put16(p, pub->id);
        if (v5) *p++ = 0;
        memcpy(p, payload_of(number), PAYLOAD);
        pub->conn.out.end += (size_t)(p - start) + PAYLOAD;
    }
    pub->sent_at[pub->id] = now_ns();
    pub->unacked++;
}

static void acknowledged(Pub *pub, unsigned id, uint64_t now) {
    if (id >= IDS || !pub->sent_at[id]) die("refused: an acknowledgement of nothing");
    /* Every so often one, when there are more than can be kept: the same share of all of them. */
    if (sample_count < sizeof samples / sizeof *samples) samples[sample_count++] = now - pub->sent_at[id];
    else samples[(now / 7) % sample_count] = now - pub->sent_at[id];
    pub->sent_at[id] = 0;
    pub->unacked--;
    last_progress = now;
}

static unsigned take_acks(Pub *pub) {
    unsigned taken = 0;
    uint64_t now = now_ns();
    Packet packet;
    Message message;
    if (opt.nats) {
        for (; next_message(&pub->conn, &message); taken++) {
            if (is_error(&message)) die("refused: %.*s", (int)message.length, (const char *)message.body);
            acknowledged(pub, (unsigned)atoi(strrchr(message.subject, '.') + 1), now);
        }
        return taken;
    }
    for (; next_packet(&pub->conn.in, &packet); taken++) {
        if (packet.type != PUBACK || (packet.length > 2 && packet.body[2] >= 0x80)) die("refused: packet type %u", packet.type);
        acknowledged(pub, get16(packet.body), now);
    }
    return taken;
}

static void print_samples(void);

static void publish(void) {
    Pub *pubs = allocate((size_t)opt.pubs, sizeof *pubs);
    char id[32];
    for (int i = 0; i < opt.pubs; i++) {
        Pub *pub = &pubs[i];
        snprintf(id, sizeof id, "bench-p%d", i);
        if (opt.nats) open_nats(&pub->conn, i, opt.host, opt.port);
        else open_mqtt(&pub->conn, id, true);
        pub->quota = opt.nats ? IDS : await_connack(&pub->conn);
        if (opt.window && opt.window < pub->quota) pub->quota = opt.window;
        if (pub->quota > IDS - 500) pub->quota = IDS - 500;
        go_awake(&pub->conn);
    }
    uint64_t start = last_progress = now_ns();
    uint64_t end = opt.seconds > 0 ? start + (uint64_t)(opt.seconds * 1e9) : UINT64_MAX;
    unsigned sent = 0, done = 0;
    while (done < opt.count) {
        for (int i = 0; i < opt.pubs; i++) {
            Pub *pub = &pubs[i];
            while (sent < opt.count && pub->unacked < pub->quota && held(&pub->conn.out) < COALESCED)
                put_event(pub, opt.first + sent++);
            if (turn(&pub->conn)) done += take_acks(pub);
        }
        if (sent < opt.count && now_ns() >= end) opt.count = sent; /* time is over: no more, and wait for the rest */
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    printf("{\"events\": %u, \"seconds\": %.6f, \"per_s\": %.1f, \"idle_share\": %.3f", done, seconds, done / seconds,
           (double)idle_ns / 1e9 / seconds);
    print_samples();
    for (int i = 0; i < opt.pubs; i++) close(pubs[i].conn.fd);
}

/* --- query: MQTT ------------------------------------------------------------------------------------------------------ */

static void put_subscribe(Conn *c, const char *filter, char **options, int count) {
    uint8_t properties[1024], body[2048], *p = properties;
    for (int i = 0; i < count; i++) {
        char *value = strchr(options[i], '=');
        if (!value) die("an option is key=value");
        *p++ = USER_PROPERTY;
        p = put_text(p, options[i], (size_t)(value - options[i]));
        p = put_text(p, value + 1, strlen(value + 1));
    }
    size_t length = (size_t)(p - properties);
    p = put16(body, 1);
    if (v5) {
        p = put_varint(p, length);
        memcpy(p, properties, length);
        p += length;
    }
    p = put_text(p, filter, strlen(filter));
    *p++ = (uint8_t)opt.qos;
    finish(c, SUBSCRIBE << 4 | 2, body, (size_t)(p - body));
}

static void put_unsubscribe(Conn *c, const char *filter) {
    uint8_t body[1024], *p = put16(body, 2);
    if (v5) *p++ = 0;
    p = put_text(p, filter, strlen(filter));
    finish(c, UNSUBSCRIBE << 4 | 2, body, (size_t)(p - body));
}

typedef struct { unsigned events; bool ended; } Progress;

static char last_words[512]; /* of the marker */

/* An event, or the end of history. */
static void take_publish(Conn *c, const Packet *packet, Progress *progress) {
    const uint8_t *p = packet->body, *end = p + packet->length, *topic = p + 2;
    size_t topic_length = get16(p), skipped;
    p = topic + topic_length;
    if (packet->flags >> 1 & 3) {
        uint8_t ack[2] = {p[0], p[1]};
        finish(c, PUBACK << 4, ack, 2);
        p += 2;
    }
    if (v5) {
        size_t digits = get_varint(p, (size_t)(end - p), &skipped);
        p += digits + skipped;
    }
    if (topic_length == 12 && !memcmp(topic, "$history/end", 12)) {
        progress->ended = true; /* whether it is complete is counted, not believed */
        snprintf(last_words, sizeof last_words, "%.*s", (int)(end - p), (const char *)p);
        return;
    }
    check_event(topic, topic_length, p, (size_t)(end - p));
    progress->events++;
}

/* Until a packet of this type, or, for a type of 0, until the history or the number of events is complete. */
static void take_packets(Conn *c, unsigned type, unsigned expected, Progress *progress) {
    Packet packet;
    for (;;) {
        while (next_packet(&c->in, &packet)) {
            if (packet.type == PUBLISH) take_publish(c, &packet, progress);
            else if (packet.type == SUBACK && packet.body[packet.length - 1] >= 0x80)
                die("refused: SUBACK %u", packet.body[packet.length - 1]);
            else if (packet.type == DISCONNECT) die("refused: the broker disconnected");
            if (type && packet.type == type) return;
        }
        if (!type && (progress->ended || (!opt.marker && progress->events >= expected))) return;
        turn(c);
    }
}

static uint64_t query_mqtt(Conn *c, const char *filter, unsigned expected, char **options, int count) {
    Progress progress = {0};
    uint64_t begun = now_ns();
    put_subscribe(c, filter, options, count);
    take_packets(c, 0, expected, &progress);
    uint64_t taken = now_ns() - begun;
    if (progress.events != expected) die("wrong: %u events instead of %u: %s", progress.events, expected, last_words);
    put_unsubscribe(c, filter);
    take_packets(c, UNSUBACK, 0, &progress);
    return taken;
}

/* --- query: JetStream ------------------------------------------------------------------------------------------------- */

static void await_reply(Conn *c, const char *subject) {
    Message message;
    for (;;) {
        while (next_message(c, &message))
            if (!strcmp(message.subject, subject)) {
                if (is_error(&message)) die("refused: %.*s", (int)message.length, (const char *)message.body);
                return;
            }
        turn(c);
    }
}

static void create_consumer(Conn *c, int number, const char *filter, const char *inbox, char **options, int count) {
    char subject[256], body[1024], more[512] = "", push[256] = "";
    for (int i = 0; i < count; i++) snprintf(more + strlen(more), sizeof more - strlen(more), "%s,", options[i]);
    if (opt.push)
        snprintf(push, sizeof push, "\"deliver_subject\":\"%s\",\"flow_control\":true,\"idle_heartbeat\":5000000000,", inbox);
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.CREATE.%s.c%d.%s", opt.stream, number, filter);
    snprintf(body, sizeof body,
             "{\"stream_name\":\"%s\",\"config\":{%s%s\"name\":\"c%d\",\"filter_subject\":\"%s\",\"ack_policy\":\"none\","
             "\"mem_storage\":true,\"num_replicas\":1,\"inactive_threshold\":60000000000}}",
             opt.stream, more, push, number, filter);
    put_request(c, subject, "_INBOX.0.create", body);
    await_reply(c, "_INBOX.0.create");
}

/* Flow control asks by its reply subject, or, when that went astray, in the header of a heartbeat. */
static void answer_flow_control(Conn *c, const Message *message) {
    static const char stalled[] = "Nats-Consumer-Stalled: ";
    char subject[128];
    const char *at = memmem(message->header, message->header_length, stalled, sizeof stalled - 1);
    if (*message->reply) put_request(c, message->reply, "", "");
    else if (at && sscanf(at + sizeof stalled - 1, "%127s", subject) == 1) put_request(c, subject, "", "");
}

static uint64_t query_nats(Conn *c, const char *filter, unsigned expected, char **options, int count) {
    static int number;
    if (!number) number = getpid() * 1000; /* one that failed may have left its consumers behind */
    char inbox[32], mine[128], subject[256], body[128];
    unsigned events = 0, asked = 0;
    snprintf(inbox, sizeof inbox, opt.push ? "_INBOX.m%d" : "_INBOX.0.m%d", ++number);
    snprintf(mine, sizeof mine, "$JS.ACK.%s.c%d.", opt.stream, number);
    uint64_t begun = now_ns();
    if (opt.push) put_words(c, "SUB %s 2\r\n", inbox); /* a consumer does not push to a wildcard */
    create_consumer(c, number, filter, inbox, options, count);
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.c%d", opt.stream, number);
    while (events < expected) {
        if (!opt.push && asked < expected && asked - events <= opt.batch / 2) { /* the next batch before this one ends */
            unsigned batch = expected - asked < opt.batch ? expected - asked : opt.batch;
            snprintf(body, sizeof body, "{\"batch\":%u,\"expires\":20000000000}", batch);
            put_request(c, subject, inbox, body);
            asked += batch;
        }
        turn(c);
        for (Message message; events < expected && next_message(c, &message);) {
            int status = strcmp(message.subject, inbox) ? 0 : status_of(&message); /* events keep the subject they had */
            if (status == 100) answer_flow_control(c, &message);
            if (status > 100) die("refused: status %d after %u of %u events", status, events, expected);
            if (status || strncmp(message.reply, mine, strlen(mine))) continue; /* a consumer before may have sent more */
            check_event(message.subject, strlen(message.subject), message.body, message.length);
            events++;
        }
    }
    uint64_t taken = now_ns() - begun;
    if (opt.push) put_words(c, "UNSUB 2\r\n");
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DELETE.%s.c%d", opt.stream, number);
    put_request(c, subject, "_INBOX.0.delete", "");
    await_reply(c, "_INBOX.0.delete");
    return taken;
}

/* --- the rest --------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_us(double share) {
    if (!sample_count) return 0;
    size_t rank = (size_t)(share * (double)sample_count);
    return (double)samples[rank < sample_count ? rank : sample_count - 1] / 1e3;
}

static void print_samples(void) {
    qsort(samples, sample_count, sizeof *samples, by_size);
    printf(", \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", percentile_us(.5), percentile_us(.99),
           percentile_us(1));
}

static void query(void) {
    Conn conn;
    char line[2048], *words[16];
    uint64_t events = 0, busy = 0;
    if (opt.nats) open_nats(&conn, 0, opt.host, opt.port);
    else {
        open_mqtt(&conn, "bench-q", true);
        await_connack(&conn);
    }
    go_awake(&conn);
    while (fgets(line, sizeof line, stdin) && sample_count < QUERIES_MAX) {
        int count = 0;
        char *rest = line;
        for (char *word; count < 16 && (word = strtok_r(rest, "\t\n", &rest));) words[count++] = word;
        if (count < 2) die("a line is: filter TAB number of events TAB options");
        unsigned expected = (unsigned)atol(words[1]);
        newest = -1;
        last_progress = now_ns();
        uint64_t taken = (opt.nats ? query_nats : query_mqtt)(&conn, words[0], expected, words + 2, count - 2);
        samples[sample_count++] = taken;
        events += expected;
        busy += taken;
    }
    double seconds = (double)busy / 1e9;
    printf("{\"queries\": %zu, \"events\": %lu, \"seconds\": %.6f, \"per_s\": %.1f, \"idle_share\": %.3f", sample_count,
           events, seconds, (double)events / seconds, (double)idle_ns / 1e9 / seconds);
    print_samples();
    close(conn.fd);
}

static void enlist(void) {
    Conn conn;
    open_mqtt(&conn, "bench-late", false);
    await_connack(&conn);
    put_subscribe(&conn, opt.filter, NULL, 0);
    send_all(&conn);
    await_suback(&conn, 1, (unsigned)opt.qos);
    put_disconnect(&conn);
    send_all(&conn);
    close(conn.fd);
    puts("{}");
}

/* Timed from the greeting, as a query is from its request: the queue is what the session asks for. */
static void drain(void) {
    Conn conn;
    Progress progress = {0};
    uint64_t begun = last_progress = now_ns();
    open_mqtt(&conn, "bench-late", false);
    await_connack(&conn);
    go_awake(&conn);
    opt.marker = false;
    take_packets(&conn, 0, opt.count, &progress);
    double seconds = (double)(now_ns() - begun) / 1e9;
    pour(&conn);
    printf("{\"events\": %u, \"seconds\": %.6f, \"per_s\": %.1f, \"idle_share\": %.3f}\n", progress.events, seconds,
           progress.events / seconds, (double)idle_ns / 1e9 / seconds);
    close(conn.fd);
}

static const struct option options[] = {
    {"host", 1, 0, 'h'},   {"port", 1, 0, 'p'},  {"nats", 0, 0, 'N'},    {"v5", 0, 0, '5'},     {"qos", 1, 0, 'q'},
    {"count", 1, 0, 'n'},  {"first", 1, 0, 'f'}, {"window", 1, 0, 'w'},  {"pubs", 1, 0, 'a'},   {"seconds", 1, 0, 'd'},
    {"batch", 1, 0, 'b'},  {"push", 0, 0, 'P'},  {"retain", 0, 0, 'r'},  {"filter", 1, 0, 't'}, {"stream", 1, 0, 's'},
    {"unmarked", 0, 0, 'u'}, {"stall", 1, 0, 'x'}, {"help", 0, 0, '?'},  {0, 0, 0, 0}};

static const char usage[] =
    "load publish|query|enlist|drain [options]; one line of JSON is the result\n"
    "  --host ADDRESS --port N   (127.0.0.1, 1883)\n"
    "  --nats | --v5             NATS JetStream, or MQTT 5 instead of 3.1.1\n"
    "  --count N --first K       publish: N events, numbered from K; drain: how many wait\n"
    "  --seconds S               publish: no more than that are begun after so long\n"
    "  --window W --pubs P       publish: W unacknowledged per connection, 0: as many as the server lets; P connections\n"
    "  --retain                  publish: retained\n"
    "  --qos Q                   of subscriptions (1); publications have 1\n"
    "  --filter F                enlist: what the session subscribes to (bench/#)\n"
    "  --unmarked                query: retained messages: no marker ends them, in any order\n"
    "  --stream S                the stream (BENCH)\n"
    "  --batch B | --push        consumers: events pulled at a time (5000), or pushed with flow control\n"
    "  --stall S                 give up when nothing happens for so long (30)";

static void parse(int count, char **arguments) {
    for (int o; (o = getopt_long(count, arguments, "", options, NULL)) != -1;) switch (o) {
        case 'h': opt.host = optarg; break;
        case 'p': opt.port = atoi(optarg); break;
        case 'N': opt.nats = true; break;
        case '5': v5 = true; break;
        case 'q': opt.qos = atoi(optarg); break;
        case 'n': opt.count = (unsigned)atol(optarg); break;
        case 'f': opt.first = (unsigned)atol(optarg); break;
        case 'w': opt.window = (unsigned)atol(optarg); break;
        case 'a': opt.pubs = atoi(optarg); break;
        case 'd': opt.seconds = atof(optarg); break;
        case 'b': opt.batch = (unsigned)atol(optarg); break;
        case 'P': opt.push = true; break;
        case 'r': opt.retain = true; break;
        case 't': opt.filter = optarg; break;
        case 's': opt.stream = optarg; break;
        case 'u': opt.marker = opt.ordered = false; break;
        case 'x': opt.stall = atof(optarg); break;
        default: die("%s", usage);
    }
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } verbs[] = {
        {"publish", publish}, {"query", query}, {"enlist", enlist}, {"drain", drain}};
    parse(count, arguments);
    if (optind != count - 1 || opt.qos < 0 || opt.qos > 1 || opt.pubs < 1 || opt.batch < 1) die("%s", usage);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(arguments[optind], verbs[i].name)) {
            verbs[i].run();
            return 0;
        }
    die("%s", usage);
}
