package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// A crew is the processes that run.
type crew struct {
	job     job // of the next one, but for its number
	members []*member
	next    uint32
}

// A member is a process of a crew.
type member struct {
	number uint32
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
}

// start starts more processes, which want nothing yet.
func (c *crew) start(n int) error {
	var begun []*member
	for range n {
		m, err := c.launch()
		if m != nil {
			c.members = append(c.members, m)
			begun = append(begun, m)
		}
		if err != nil {
			return err
		}
	}
	for _, m := range begun {
		if line, err := m.out.ReadString('\n'); line != "ready\n" {
			return fmt.Errorf("process %d says %q: %w", m.number, line, err)
		}
	}
	return nil
}

func (c *crew) launch() (*member, error) {
	j := c.job
	j.Process = c.next
	c.next++
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // the process ends when this does, so it can't outlive the test
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &member{j.Process, cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// demand says how many calls a second the process wants.
func (m *member) demand(perSecond float64) error {
	_, err := fmt.Fprintf(m.in, "demand %g\n", perSecond)
	return err
}

// tell asks what was since it was asked last.
func (m *member) tell() (t told, err error) {
	if _, err := fmt.Fprintln(m.in, "tell"); err != nil {
		return t, err
	}
	line, err := m.out.ReadBytes('\n')
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(line, &t)
}

// pause stops the process as SIGSTOP does, for some time.
func (m *member) pause(d time.Duration) error {
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	return m.cmd.Process.Signal(syscall.SIGCONT)
}

// replace ends the oldest process, in order or by a kill, and starts another that wants as much.
func (c *crew) replace(perSecond float64, kill bool) error {
	oldest := c.members[0]
	c.members = c.members[1:]
	if kill {
		_ = oldest.cmd.Process.Kill()
	}
	oldest.end()
	if err := c.start(1); err != nil {
		return err
	}
	return c.members[len(c.members)-1].demand(perSecond)
}

func (m *member) end() {
	_ = m.in.Close()
	_ = m.cmd.Wait()
}

func (c *crew) end() {
	for _, m := range c.members {
		_ = m.in.Close()
	}
	for _, m := range c.members {
		_ = m.cmd.Wait()
	}
}

// evenly lets each process want as much.
func (c *crew) evenly(total float64) error {
	for _, m := range c.members {
		if err := m.demand(total / float64(len(c.members))); err != nil {
			return err
		}
	}
	return nil
}

// mostly lets one process want four fifths of all.
func (c *crew) mostly(one int, total float64) error {
	for i, m := range c.members {
		part := total * 0.2 / float64(len(c.members)-1)
		if i == one {
			part = total * 0.8
		}
		if err := m.demand(part); err != nil {
			return err
		}
	}
	return nil
}

func (c *crew) numbers() (all []uint32) {
	for _, m := range c.members {
		all = append(all, m.number)
	}
	return all
}

// askEach asks all processes.
func (c *crew) askEach() (all []told, err error) {
	for _, m := range c.members {
		t, err := m.tell()
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// ask sums up what the processes tell. The times are those of the median process.
func (c *crew) ask() (sum told, err error) {
	var p50, p99, p999 []time.Duration
	sum.Failures = map[string]int64{}
	all, err := c.askEach()
	for _, t := range all {
		sum.Wanted, sum.Sent = sum.Wanted+t.Wanted, sum.Sent+t.Sent
		for text, n := range t.Failures {
			sum.Failures[text] += n
		}
		p50, p99, p999 = append(p50, t.P50), append(p99, t.P99), append(p999, t.P999)
	}
	for _, all := range [][]time.Duration{p50, p99, p999} {
		slices.Sort(all)
	}
	if err != nil || len(all) == 0 {
		return sum, err
	}
	n := len(p50) / 2
	sum.P50, sum.P99, sum.P999 = p50[n], p99[n], p999[n]
	return sum, nil
}
