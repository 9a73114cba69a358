/* Connections of the load generator: a socket, plain or TLS, with a buffer for each direction.
 * Connections are opened and greeted blocking, one after the other, and then served by one epoll. */
#ifndef LOAD_NET_H
#define LOAD_NET_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
static SSL_CTX *tls_context;
#else
typedef struct ssl_st SSL;
#endif

enum { GREETING_TIMEOUT_S = 30, READ_CHUNK = 1 << 17 };

typedef struct {
    uint8_t *bytes;
    size_t start, end, size; /* what is held lies in start..end */
} Buffer;

typedef enum { PUBLISHER, SUBSCRIBER, IDLER } Role;

typedef struct {
    int fd;
    SSL *ssl;
    Role role;
    int index;
    Buffer in, out;
    bool wants_writable; /* epoll is asked for EPOLLOUT */
} Conn;

static int epoll_fd;

static void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) die("out of memory");
    return memory;
}

static size_t held(const Buffer *b) { return b->end - b->start; }

/* Room for n more bytes behind what is held. */
static uint8_t *reserve(Buffer *b, size_t n) {
    if (b->start == b->end) b->start = b->end = 0;
    if (b->size - b->end < n && b->start) {
        memmove(b->bytes, b->bytes + b->start, held(b));
        b->end -= b->start;
        b->start = 0;
    }
    if (b->size - b->end < n) {
        b->size = 2 * (b->end + n);
        b->bytes = realloc(b->bytes, b->size);
        if (!b->bytes) die("out of memory");
    }
    return b->bytes + b->end;
}

static void open_conn(Conn *c, Role role, int index, const char *host, int port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *address;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &address)) die("%s is no numeric address", host);
    memset(c, 0, sizeof *c);
    c->role = role;
    c->index = index;
    c->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket: %s", strerror(errno));
    if (connect(c->fd, address->ai_addr, address->ai_addrlen)) die("connect to port %d: %s", port, strerror(errno));
    freeaddrinfo(address);
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct timeval patience = {.tv_sec = GREETING_TIMEOUT_S};
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
#ifdef WITH_TLS
    if (tls_context) {
        c->ssl = SSL_new(tls_context);
        SSL_set_fd(c->ssl, c->fd);
        if (SSL_connect(c->ssl) != 1) die("TLS handshake with port %d failed", port);
    }
#endif
}

/* From here on the connection belongs to epoll. */
static void go_nonblocking(Conn *c) {
    fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event)) die("epoll_ctl: %s", strerror(errno));
}

/* Bytes moved; 0: the broker closed; -1: nothing now. */
static ssize_t receive(Conn *c, size_t chunk) {
    uint8_t *room = reserve(&c->in, chunk);
    ssize_t n;
#ifdef WITH_TLS
    if (c->ssl) {
        n = SSL_read(c->ssl, room, (int)chunk);
        if (n <= 0) {
            int why = SSL_get_error(c->ssl, (int)n);
            return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? -1 : 0;
        }
        c->in.end += (size_t)n;
        return n;
    }
#endif
    do n = recv(c->fd, room, chunk, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno == EAGAIN ? -1 : 0;
    c->in.end += (size_t)n;
    return n;
}

/* Records that OpenSSL has already taken from the socket: epoll does not know of them. */
static bool more_decrypted(const Conn *c) {
#ifdef WITH_TLS
    return c->ssl && SSL_pending(c->ssl) > 0;
#else
    (void)c;
    return false;
#endif
}

static ssize_t transmit(Conn *c) {
    const uint8_t *bytes = c->out.bytes + c->out.start;
#ifdef WITH_TLS
    if (c->ssl) {
        int n = SSL_write(c->ssl, bytes, (int)held(&c->out));
        if (n > 0) return n;
        int why = SSL_get_error(c->ssl, n);
        return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? -1 : 0;
    }
#endif
    ssize_t n;
    do n = send(c->fd, bytes, held(&c->out), MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0 ? n : errno == EAGAIN ? -1 : 0;
}

/* Write what is held, as far as the socket takes it; epoll tells when it takes the rest. False: the broker closed. */
static bool flush(Conn *c) {
    while (held(&c->out)) {
        ssize_t n = transmit(c);
        if (n == 0) return false;
        if (n < 0) break;
        c->out.start += (size_t)n;
    }
    bool wants = held(&c->out) > 0;
    if (wants != c->wants_writable) {
        struct epoll_event event = {.events = EPOLLIN | (wants ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
        c->wants_writable = wants;
    }
    return true;
}

static void start_tls(void) {
#ifdef WITH_TLS
    /* The broker's certificate was made for this run: what is measured is the cipher, not the trust. */
    tls_context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_verify(tls_context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_mode(tls_context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
#else
    die("compiled without TLS");
#endif
}

#endif
