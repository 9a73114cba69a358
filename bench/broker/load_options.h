/* The command line of the load generator. */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include <getopt.h>

#include "load_mqtt.h"
#include "load_watch.h"

enum { HEADER = 16, RUN_LENGTH = 16 }; /* bytes of payload that are checked for more than their filling; of --run */
enum { FIXED = 1, ALL_NEW = 0 }; /* --topics: otherwise as many in turn */

static struct {
    const char *host, *run;
    int port, sub_port, pubs, subs, topics, qos, size, size_max, idle, idle_conns;
    unsigned window, count;
    double seconds, warmup, rate, settle, stall;
    bool pairs, idle_exact, clean, tls, hold, nats, sleep;
} opt = {.host = "127.0.0.1", .run = "0", .port = 1883, .pubs = 1, .subs = 1, .topics = FIXED, .size = 64, .window = 20,
         .idle_conns = 1, .stall = 10, .clean = true};

static const struct option options[] = {
    {"host", 1, 0, 'h'},      {"port", 1, 0, 'p'},   {"sub-port", 1, 0, 'P'}, {"pubs", 1, 0, 'a'},   {"subs", 1, 0, 'b'},
    {"pairs", 0, 0, 'c'},     {"topics", 1, 0, 't'}, {"qos", 1, 0, 'q'},      {"size", 1, 0, 's'},   {"window", 1, 0, 'w'},
    {"count", 1, 0, 'n'},     {"seconds", 1, 0, 'd'}, {"warmup", 1, 0, 'u'},  {"rate", 1, 0, 'r'},   {"idle", 1, 0, 'i'},
    {"idle-conns", 1, 0, 'j'}, {"idle-exact", 0, 0, 'e'}, {"v5", 0, 0, '5'},  {"tls", 0, 0, 'T'},    {"run", 1, 0, 'R'},
    {"settle", 1, 0, 'S'},    {"stall", 1, 0, 'x'},  {"keep-session", 0, 0, 'k'}, {"hold", 0, 0, 'H'}, {"help", 0, 0, '?'},
    {"nats", 0, 0, 'N'},      {"sleep", 0, 0, 'z'},  {"watch", 1, 0, 'W'},    {0, 0, 0, 0}};

static const char usage[] =
    "load [options]: load an MQTT broker and check every delivery; one line of JSON is the result\n"
    "  --host ADDRESS --port N   where publishers connect (127.0.0.1, 1883)\n"
    "  --sub-port N              where subscribers connect (the same)\n"
    "  --pubs N --subs N         every subscriber gets what every publisher sends (1, 1)\n"
    "  --pairs                   instead, subscriber i gets what publisher i sends\n"
    "  --topics K                topics per publisher in turn: 1 fixed, 0 each message a new one (1)\n"
    "  --qos 0|1  --v5  --tls    (0, MQTT 3.1.1, plain)\n"
    "  --size N | N-M            bytes of payload, at least 16; a range varies from message to message (64)\n"
    "  --window W                messages under way per publisher; 0: as many as the socket takes (20)\n"
    "  --count N | --seconds S   how long, per publisher; with --warmup S before the measurement starts\n"
    "  --rate R                  messages per second of all publishers together, whatever the broker does\n"
    "  --idle N --idle-conns C   N more subscriptions on C more connections that nothing matches\n"
    "  --idle-exact              without wildcards\n"
    "  --keep-session            not a clean session\n"
    "  --run NAME                part of topics and client ids (0)\n"
    "  --settle S                wait between subscribing and publishing (0)\n"
    "  --stall S                 give up when nothing arrives for so long (10)\n"
    "  --nats                    the server's own protocol instead of MQTT: QoS 0 only, no idle connections, no TLS\n"
    "  --sleep                   wait asleep, as ordinary clients do, and not awake\n"
    "  --watch PID[,PID...]      say how much processor time these processes took meanwhile\n"
    "  --hold                    only open --idle-conns connections and keep them until standard input ends";

static void parse(int count, char **arguments) {
    for (int o; (o = getopt_long(count, arguments, "", options, NULL)) != -1;) switch (o) {
        case 'h': opt.host = optarg; break;
        case 'p': opt.port = atoi(optarg); break;
        case 'P': opt.sub_port = atoi(optarg); break;
        case 'a': opt.pubs = atoi(optarg); break;
        case 'b': opt.subs = atoi(optarg); break;
        case 'c': opt.pairs = true; break;
        case 't': opt.topics = atoi(optarg); break;
        case 'q': opt.qos = atoi(optarg); break;
        case 's':
            if (sscanf(optarg, "%d-%d", &opt.size, &opt.size_max) == 1) opt.size_max = opt.size;
            break;
        case 'w': opt.window = (unsigned)atoi(optarg); break;
        case 'n': opt.count = (unsigned)atoi(optarg); break;
        case 'd': opt.seconds = atof(optarg); break;
        case 'u': opt.warmup = atof(optarg); break;
        case 'r': opt.rate = atof(optarg); break;
        case 'i': opt.idle = atoi(optarg); break;
        case 'j': opt.idle_conns = atoi(optarg); break;
        case 'e': opt.idle_exact = true; break;
        case '5': v5 = true; break;
        case 'T': opt.tls = true; break;
        case 'R': opt.run = optarg; break;
        case 'S': opt.settle = atof(optarg); break;
        case 'x': opt.stall = atof(optarg); break;
        case 'k': opt.clean = false; break;
        case 'H': opt.hold = true; opt.idle = 1; break;
        case 'N': opt.nats = true; break;
        case 'z': opt.sleep = true; break;
        case 'W': watch(optarg); break;
        default: die("%s", usage);
    }
    if (!opt.size_max) opt.size_max = opt.size;
    if (!opt.sub_port) opt.sub_port = opt.port;
    if (opt.size < HEADER || opt.size_max < opt.size) die("--size: at least %d, and the second not below the first", HEADER);
    if (opt.qos < 0 || opt.qos > 1) die("--qos is 0 or 1");
    if (opt.nats && (opt.qos || opt.idle || opt.hold || opt.tls)) die("--nats: not with --qos 1, --idle, --hold, --tls");
    if (opt.pubs < 1 || opt.subs < 1 || (opt.pairs && opt.pubs != opt.subs))
        die("--pubs and --subs: at least 1, and equal with --pairs");
    if (!opt.hold && !opt.count && opt.seconds <= 0) die("--count or --seconds must be given");
    if (opt.idle_conns < 1 || strlen(opt.run) >= RUN_LENGTH)
        die("--idle-conns: at least 1; --run: at most %d letters", RUN_LENGTH - 1);
}

#endif
