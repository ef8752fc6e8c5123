package testservers

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestRabbitMQTakesQueuesAndLeavesNothing(t *testing.T) {
	var s *Server
	var names int
	t.Run("broker", func(t *testing.T) {
		s = StartRabbitMQ(t)
		if want := "amqp://guest:guest@" + s.Addr + "/"; s.DSN != want {
			t.Errorf("DSN %q, want %q", s.DSN, want)
		}
		if !declared(t, s.Addr, "q", false) {
			t.Fatal("a queue is not declared")
		}
		names = epmdPort(t, s)
		if os.Getenv("GABION_SOAK") != "1" {
			return // e2e/messages restarts it in every run
		}
		s.Kill()
		if s.kind.up(s) {
			t.Error("a killed broker greets")
		}
		s.Restart()
		if !declared(t, s.Addr, "q", true) {
			t.Error("a durable queue is gone after a kill")
		}
		s.Stop()
		s.Restart()
		if !declared(t, s.Addr, "q", true) || declared(t, s.Addr, "other", true) {
			t.Error("after an orderly restart there is not one queue, q")
		}
	})
	if s == nil {
		return // skipped
	}
	if s.child != nil {
		t.Error("the broker runs on")
	}
	if _, err := os.Stat(s.dir); err == nil {
		t.Errorf("it left %s", s.dir)
	}
	if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", names)); err == nil {
		conn.Close()
		t.Error("its epmd runs on")
	}
	if out, err := exec.Command("ps", "axo", "args").Output(); err == nil && strings.Contains(string(out), s.dir) {
		t.Errorf("one of its processes runs on:\n%s", out)
	}
}

// epmdPort reads the port from the broker's command line.
func epmdPort(t *testing.T, s *Server) (port int) {
	t.Helper()
	for _, arg := range s.kind.argv(s) {
		fmt.Sscanf(arg, "ERL_EPMD_PORT=%d", &port)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("the broker's epmd: %v", err)
	}
	conn.Close()
	return port
}

// declared speaks just enough of AMQP 0-9-1 to declare a durable queue, or if it is passive
// to ask whether there is one.
func declared(t *testing.T, addr, queue string, passive bool) bool {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(channel uint16, class, method uint16, args string) {
		frame := append([]byte{1}, binary.BigEndian.AppendUint16(nil, channel)...)
		frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(args)))
		frame = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(frame, class), method)
		conn.Write(append(append(frame, args...), 0xce))
	}
	answer := func() (class, method uint16) {
		head := make([]byte, 7)
		if _, err := io.ReadFull(conn, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(conn, body); err != nil {
			t.Fatal(err)
		}
		return binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])
	}
	fmt.Fprint(conn, "AMQP\x00\x00\x09\x01")
	answer()                                                                                         // connection.start
	send(0, 10, 11, "\x00\x00\x00\x00"+"\x05PLAIN"+"\x00\x00\x00\x0c\x00guest\x00guest"+"\x05en_US") // start-ok
	answer()                                                                                         // tune
	send(0, 10, 31, "\x07\xff\x00\x02\x00\x00\x00\x00")                                              // tune-ok
	send(0, 10, 40, "\x01/\x00\x00")                                                                 // open
	answer()                                                                                         // open-ok
	send(1, 20, 10, "\x00")                                                                          // channel.open
	answer()                                                                                         // open-ok
	flags := map[bool]string{false: "\x02", true: "\x03"}[passive]                                   // durable, passive
	send(1, 50, 10, "\x00\x00"+string([]byte{byte(len(queue))})+queue+flags+"\x00\x00\x00\x00")      // queue.declare
	class, method := answer()
	return class == 50 && method == 11 // declare-ok, and not channel.close
}

func TestMissingRabbitMQIsSkippedAndSaysSo(t *testing.T) {
	scripts := rabbitmqScripts
	t.Cleanup(func() { rabbitmqScripts = scripts })
	rabbitmqScripts = []string{t.TempDir() + "/*"}
	t.Setenv(requireEnv, "")
	if w := testify(t, func(t testing.TB) { RabbitMQ(t) }); !strings.Contains(w.skipped, "rabbitmq-server is not installed") {
		t.Errorf("skipped %q, failed %q", w.skipped, w.failed)
	}
}
