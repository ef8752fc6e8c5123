package gabionredis_test

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// script is a server with fixed replies, one for each command but those that set a connection up.
type script struct {
	mu      sync.Mutex
	replies []string
	asked   []string
}

func (s *script) next(command string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, command)
	reply := s.replies[0]
	if len(s.replies) > 1 {
		s.replies = s.replies[1:]
	}
	return reply
}

func (s *script) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	line := func() (string, error) { text, err := r.ReadString('\n'); return strings.TrimSpace(text), err }
	for {
		head, err := line()
		if err != nil {
			return
		}
		var words []string
		n, _ := strconv.Atoi(head[1:])
		for range n {
			line()
			word, _ := line()
			words = append(words, word)
		}
		switch strings.ToLower(words[0]) {
		case "hello":
			conn.Write([]byte("-ERR unknown command\r\n"))
		case "client", "auth", "select":
			conn.Write([]byte("+OK\r\n"))
		default:
			conn.Write([]byte(s.next(words[0]) + "\r\n"))
		}
	}
}

// What a server answers before it begins is repeated, whatever the command does; what the
// command is to blame for is not.
func TestRepliesOfAServer(t *testing.T) {
	tests := []struct {
		name    string
		replies []string
		sent    int
		reason  gabion.Reason
		effect  policy.Effect
	}{
		{"LOADING", []string{"-LOADING Redis is loading", ":1"}, 2, policy.None, 0},
		{"READONLY", []string{"-READONLY You can't write", ":1"}, 2, policy.None, 0},
		{"MASTERDOWN", []string{"-MASTERDOWN Link is down", ":1"}, 2, policy.None, 0},
		{"CLUSTERDOWN", []string{"-CLUSTERDOWN Hash slot not served", ":1"}, 2, policy.None, 0},
		{"TRYAGAIN", []string{"-TRYAGAIN Multiple keys", ":1"}, 2, policy.None, 0},
		{"BUSY", []string{"-BUSY Redis is busy", ":1"}, 2, policy.None, 0},
		{"max number of clients", []string{"-ERR max number of clients reached", ":1"}, 2, policy.None, 0},
		{"LOADING for ever", []string{"-LOADING Redis is loading"}, 3, policy.AttemptsExhausted, policy.NoEffect},
		{"MOVED, to a client that knows no cluster", []string{"-MOVED 1 127.0.0.1:1"}, 1, policy.NotRetryable, policy.NoEffect},
		{"WRONGTYPE", []string{"-WRONGTYPE Operation against"}, 1, policy.NotRetryable, policy.NoEffect},
		{"ERR", []string{"-ERR value is not an integer"}, 1, policy.NotRetryable, policy.UnknownEffect},
		{"a script's own", []string{"-MYERR not enough money"}, 1, policy.NotRetryable, policy.UnknownEffect},
		{"a text without a code, as a proxy's", []string{"-upstream failure"}, 1, policy.UnclassifiedError, policy.UnknownEffect},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{replies: tt.replies}
			c := use(t, options(testproxy.Serve(t, s.serve)), gabion.New("cache", quick()))
			err := c.Incr(t.Context(), "n").Err()
			if len(s.asked) != tt.sent || gabion.ReasonOf(err) != tt.reason || err != nil && gabion.EffectOf(err) != tt.effect {
				t.Errorf("sent %d times, %v, effect %v: %v", len(s.asked), gabion.ReasonOf(err), gabion.EffectOf(err), err)
			}
		})
	}
}

// A pipeline is repeated as one: if nothing of it was done, or all of it may be done twice.
func TestRepliesToAPipeline(t *testing.T) {
	const loading = "-LOADING Redis is loading"
	tests := []struct {
		name    string
		replies []string
		reads   bool
		sent    int
		fails   string
	}{
		{"nothing was done", []string{loading, loading, ":1", ":1"}, false, 4, ""},
		{"a part was done", []string{loading, ":1", ":1", ":1"}, false, 2, "LOADING"},
		{"the other part was done", []string{":1", loading, ":1", ":1"}, false, 2, "LOADING"},
		{"a part was read", []string{":1", loading, ":1", ":1"}, true, 4, ""},
		{"a part is wrong", []string{"-WRONGTYPE no", ":1"}, true, 2, "WRONGTYPE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{replies: tt.replies}
			c := use(t, options(testproxy.Serve(t, s.serve)), gabion.New("cache", quick()))
			_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for range 2 {
					if tt.reads {
						p.StrLen(t.Context(), "n")
					} else {
						p.Incr(t.Context(), "n")
					}
				}
				return nil
			})
			if len(s.asked) != tt.sent || (tt.fails == "") != (err == nil) || err != nil && !redis.HasErrorPrefix(err, tt.fails) {
				t.Errorf("%q was sent: %v", s.asked, err)
			}
		})
	}
}

// A transaction that was aborted while it was queued did nothing.
func TestRepliesToATransaction(t *testing.T) {
	tests := []struct {
		name    string
		replies []string
		sent    int
		fails   string
	}{
		{"refused while it was queued", []string{"+OK", "-READONLY You can't write", "-EXECABORT Transaction discarded", "+OK", "+QUEUED", "*1\r\n:1"}, 6, ""},
		{"wrong", []string{"+OK", "-ERR unknown command", "-EXECABORT Transaction discarded"}, 3, "EXECABORT"},
		{"a watched key was changed", []string{"+OK", "+QUEUED", "*-1"}, 3, "redis: transaction failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{replies: tt.replies}
			c := use(t, options(testproxy.Serve(t, s.serve)), gabion.New("cache", quick()))
			_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error { p.Incr(t.Context(), "n"); return nil })
			if len(s.asked) != tt.sent || (tt.fails == "") != (err == nil) || err != nil && !redis.HasErrorPrefix(err, tt.fails) {
				t.Errorf("%q was sent: %v", s.asked, err)
			}
		})
	}
}

// What a command or a script is to blame for opens no breaker, however often it comes.
func TestRefusedCommandsOpenNoBreaker(t *testing.T) {
	o := options(testservers.Redis(t))
	for name, args := range map[string][]any{
		"a value that is no number": {"HINCRBY", "h", "f", "x"},
		"a key that is missing":     {"RENAME", "missing", "b"},
		"an index out of range":     {"LSET", "missing", 1, "x"},
		"a script's own error":      {"EVAL", "return redis.error_reply('MYERR not enough money')", 0},
		"a script that breaks":      {"EVAL", "error('x')", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := gabion.New("cache", policy.Policy{Breaker: policy.Breaker{Consecutive: 1}})
			if err := use(t, o, d).Do(t.Context(), args...).Err(); gabion.ReasonOf(err) != policy.NotRetryable {
				t.Errorf("error %v", err)
			}
			if got := d.Stats().Main.Breaker.State.String(); got != "closed" {
				t.Errorf("the breaker is %s", got)
			}
		})
	}
}
