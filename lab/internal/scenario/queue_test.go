package scenario

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// behind is a scenario whose clients are behind a broker.
func behind(queue, more string) string {
	return fmt.Sprintf(`version: 1
title: x
duration: 1m
warmup: 5s
clients:
  billing: {count: 2, rate: 10/s, deadline: 20s, queue: {%s}, calls: [{to: db}]}
services:
  db: {time: 1500ms}
policies:
  db: {safe: true, timeout: {call: 30s, attempt: 30s}, retry: off, bulkhead: off}
  billing: {timeout: {call: 2m, attempt: 30s}, retry: {attempts: 3}, bulkhead: {limit: 20}}
%s`, queue, more)
}

func TestMistakesOfQueues(t *testing.T) {
	for _, c := range []struct{ queue, more, at, says string }{
		{"visibility: 1s", "", "6:50", "billing: queue.workers is missing"},
		{"workers: 0", "", "6:67", "less than one"},
		{"workers: 99999999999999999999", "", "6:67", "more than ten million"},
		{"workers: -99999999999999999999", "", "6:67", "less than one"},
		{"workers: 1, inbox: hard", "", "6:77", "use one of none, hold, reexecute"},
		{"workers: 1, plain: true, inbox: hold", "", "6:90", "inbox means nothing for plain consumers"},
		{"workers: 1, prefetch: 3", "", "6:80", "prefetch means nothing where no consumer is plain"},
		{"workers: 1, skip: true", "", "6:76", "skip means nothing without partitions"},
		{"workers: 1, poison_does: fails", "", "6:83", "poison_does means nothing without poison"},
		{"workers: 1, give_up_after: 15m", "", "6:85", "give_up_after means nothing without an inbox"},
		{"workers: 1, poison: 120%", "", "6:78", "more than all"},
		{"workers: 1, visible: 1s", "", "6:70", "unknown key \"visible\" in queue"},
		{"workers: 1, policy: other", "", "11:3", "nothing goes by the policy \"billing\""},
		{"workers: 1", "faults:\n  - {kind: restart_clients, clients: billing, at: 30s, replicas: 3}\n", "13:66", "there are 2 of billing, not 3"},
		{"workers: 1", "assert:\n  - dubled(billing) == 0\n", "13:5", "did you mean doubled?"},
		{"workers: 1", "assert:\n  - doubled(db) == 0\n", "13:13", "has no doubled"},
	} {
		_, err := Parse("x", []byte(behind(c.queue, c.more)))
		var found Findings
		if !errors.As(err, &found) {
			t.Errorf("%s %s: %v", c.queue, c.more, err)
			continue
		}
		at := fmt.Sprintf("%d:%d", found[0].Line, found[0].Col)
		if text := found[0].Reason + ", " + found[0].Proposal; at != c.at || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: at %s: %s, want at %s: %s", c.queue, c.more, at, text, c.at, c.says)
		}
	}
	for text, says := range map[string]string{
		strings.Replace(behind("workers: 1", ""), "rate: 10/s", "loop: closed, think: 1s", 1): "queue means nothing in a closed loop",
		strings.Replace(behind("workers: 1", ""), "count: 2", "count: 2, session: 3", 1):      "session means nothing for consumers",
	} {
		if _, err := Parse("x", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
}

// Work that takes longer than the visibility, without and with what helps, and on the side
// of clients that have neither.
func TestMessagesAreMeasured(t *testing.T) {
	for _, c := range []struct {
		fact, queue string
		most        map[string]float64 // by metric
		least       map[string]float64
	}{
		{"plain consumers do it twice", "plain: true, workers: 20, visibility: 1s", map[string]float64{"lost": 0, "dead_letters": 0}, map[string]float64{"deliveries": 1.9, "copies": 2, "doubled": 400, "wasted_runs": 0.45}},
		{"heartbeats keep it", "workers: 20, visibility: 1s, heartbeat: true", map[string]float64{"deliveries": 1, "copies": 1, "doubled": 0, "wasted_runs": 0, "lag": 3}, nil},
		{"an inbox costs a delivery", "workers: 20, visibility: 1s, inbox: reexecute", map[string]float64{"copies": 1, "doubled": 0, "wasted_runs": 0}, map[string]float64{"deliveries": 1.5}},
		{"poison is put away after three runs", "workers: 20, inbox: reexecute, poison: 5%", map[string]float64{"deliveries": 1.2, "wasted_runs": 0.2, "doubled": 0}, map[string]float64{"deliveries": 1.04, "dead_letters": 15, "wasted_runs": 0.08}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			text := behind(c.queue, "against: plain\n")
			if strings.Contains(c.queue, "plain") {
				text = strings.Replace(text, "  billing: {timeout: {call: 2m, attempt: 30s}, retry: {attempts: 3}, bulkhead: {limit: 20}}\n", "", 1)
			}
			s := study(t, text, Options{Replications: 2})
			for _, side := range s.Sides {
				for _, b := range side.Broken {
					t.Error(b)
				}
			}
			for key, most := range c.most {
				if got := metric(t, s, 0, key, "billing", "").Mean.Value; got > most {
					t.Errorf("%s is %g, want at most %g", key, got, most)
				}
			}
			for key, least := range c.least {
				if got := metric(t, s, 0, key, "billing", "").Mean.Value; got < least {
					t.Errorf("%s is %g, want at least %g", key, got, least)
				}
			}
			if poison := strings.Contains(c.queue, "poison"); !poison && metric(t, s, 1, "doubled", "billing", "").Mean.Value < 400 && strings.Contains(c.queue, "1s") {
				t.Error("consumers without gabion do nothing twice")
			}
			if last := s.Assumptions[len(s.Assumptions)-1]; !strings.Contains(last, "consumer") {
				t.Errorf("nothing is said of what is assumed about brokers: %s", last)
			}
		})
	}
}

// Plain consumers that are restarted answer more than an inbox under hold, which puts messages
// with an unknown outcome away. Their repeated work is shown beside that, and they don't win.
func TestRestartedPlainConsumersDoNotWin(t *testing.T) {
	f, err := Open("consumer-restart-storm")
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Run(t.Context(), Options{Replications: 4})
	if err != nil {
		t.Fatal(err)
	}
	ours, plain := metric(t, s, 0, "doubled_share", "", "").Mean.Value, metric(t, s, 1, "doubled_share", "", "").Mean.Value
	messages := 0.0
	for _, fleet := range []string{"bare", "held", "keyed"} {
		messages += metric(t, s, 1, "doubled", fleet, "").Mean.Value
	}
	if offered := messages / plain; offered < 9000 || offered > 11000 { // 30 a second for 340 s
		t.Errorf("%g effects are %g of the messages, which would be %g messages", messages, plain, offered)
	}
	if plain < 1.5*ours || ours == 0 {
		t.Errorf("%g of the effects are done again, and %g by plain consumers alone", ours, plain)
	}
	j := s.Judgements[0]
	if j.Winner != "" || !strings.Contains(j.Sentence, "but ") || !strings.Contains(j.Sentence, "effects again for each 100 messages instead of") {
		t.Errorf("%q wins: %s", j.Winner, j.Sentence)
	}
}

// What is shipped makes no letters of an outage that is shorter than GiveUpAfter, and the runs alone
// do.
func TestAnOutageMakesLettersOnlyWhereTheRunsAloneDecide(t *testing.T) {
	text, err := Text("message-outage")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fact, text string
		letters    bool
	}{
		{"by runs and by time", string(text), false},
		{"by runs alone", strings.ReplaceAll(string(text), ", give_up_after: 15m", ""), true},
	} {
		f, err := Parse(c.fact, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Run(t.Context(), Options{Replications: 2, Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		some := false
		for _, a := range s.Sides[0].Asserts {
			some = some || strings.HasPrefix(a.Text, "dead_letters") && a.Measured.Value > 0
		}
		if some != c.letters {
			t.Errorf("%s: letters %t, want %t: %+v", c.fact, some, c.letters, s.Sides[0].Asserts)
		}
	}
}
