package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// frozen is the environment of a child: nothing but the call itself runs, and code that only some
// processors have faster does not.
var frozen = []string{
	"GOGC=off", "GOMAXPROCS=1",
	"GODEBUG=asyncpreemptoff=1,cpu.erms=off,cpu.avx512f=off,cpu.avx512bw=off,cpu.avx512vl=off",
}

// patience is how long a child may take.
const patience = 2 * time.Minute

// attempts bounds how often a call is counted until two counts in a row agree. If none do, as where a map
// hashes each key with a seed of its own, the least of them is taken.
const attempts = 7

// count starts a child that makes that call again and again, and counts it.
func count(name string) (c cost, err error) {
	runtime.LockOSThread() // the thread that starts a child is the one that may step through it
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), append(frozen, child+"="+name)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EACCES) {
			err = fmt.Errorf("%w: this system does not allow ptrace: %w", errUnavailable, err)
		}
		return c, err
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	p := &process{id: cmd.Process.Pid, known: map[uint64]instruction{}, where: map[uint64]cost{}}
	c, err = p.count()
	c.where = p.where
	late.Stop()
	_ = cmd.Process.Kill()         // it may have ended
	for _, id := range p.stopped { // they are this process's to wait for
		_, _ = wait(id)
	}
	_ = cmd.Wait()
	return c, err
}

// process is a child whose first thread is stepped through.
type process struct {
	id     int
	clock  uint64        // where the kernel's function is that reads the clock
	now    time.Time     // what it says
	booted time.Duration // where the monotonic clock begins, in Unix time
	known  map[uint64]instruction
	where  map[uint64]cost // what each instruction has cost in the last call, by its address

	stopped []int // its other threads
}

// count lets the child get ready and stops what else runs in it. From then on it only makes steps.
func (p *process) count() (last cost, err error) {
	if s, err := wait(p.id); err != nil || !s.Stopped() { // it stops when it is started
		return last, fmt.Errorf("the child did not start: %#x, %w", s, err)
	}
	if err := p.ready(); err != nil {
		return last, err
	}
	if err := p.stopOthers(); err != nil {
		return last, err
	}
	if err := p.stopClock(); err != nil {
		return last, err
	}
	least := cost{instructions: math.MaxInt, locked: math.MaxInt}
	for n := range attempts {
		if n > 0 {
			if _, err := p.toBreakpoint(); err != nil { // where the next call begins
				return last, err
			}
		}
		c, err := p.toBreakpoint()
		if err != nil || c.same(last) {
			return c, err
		}
		last = c
		least.instructions, least.locked = min(least.instructions, c.instructions), min(least.locked, c.locked)
	}
	return least, nil
}

// ready lets the child run to its first breakpoint.
func (p *process) ready() error {
	for sig := syscall.Signal(0); sig != syscall.SIGTRAP; {
		if err := ptrace(syscall.PTRACE_CONT, p.id, uintptr(sig)); err != nil {
			return err
		}
		s, err := wait(p.id)
		if err != nil || !s.Stopped() {
			return fmt.Errorf("the child ended: %#x, %w", s, err)
		}
		sig = s.StopSignal()
	}
	return nil
}

// stopClock stops the clock that the child reads.
func (p *process) stopClock() (err error) {
	if p.clock, err = clockOf(p.id); err != nil {
		return err
	}
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return err
	}
	p.now = time.Now()
	p.booted = time.Duration(p.now.UnixNano() - t.Nano())
	return nil
}

// toBreakpoint counts the way to the next breakpoint.
func (p *process) toBreakpoint() (c cost, err error) {
	var before uint64
	clear(p.where)
	for sig := syscall.Signal(0); ; {
		at, i, err := p.next()
		if err != nil {
			return c, err
		}
		if at != before || !i.repeats {
			one := cost{instructions: 1}
			if i.locks {
				one.locked = 1
			}
			c, p.where[at] = c.plus(one), p.where[at].plus(one)
		}
		before = at
		if err := ptrace(syscall.PTRACE_SINGLESTEP, p.id, uintptr(sig)); err != nil {
			return c, err
		}
		s, err := wait(p.id)
		if err != nil || !s.Stopped() {
			return c, fmt.Errorf("the child ended while it was counted: %#x, %w", s, err)
		}
		if sig = s.StopSignal(); sig == syscall.SIGTRAP {
			sig = 0
		}
		if i.breakpoint {
			return c, nil
		}
	}
}

// next is the instruction that comes next. A function that reads the clock has returned before.
func (p *process) next() (uint64, instruction, error) {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(p.id, &regs); err != nil {
		return 0, instruction{}, err
	}
	if regs.Rip == p.clock {
		if err := p.tell(&regs); err != nil {
			return 0, instruction{}, err
		}
	}
	i, ok := p.known[regs.Rip]
	if !ok {
		var code [8]byte
		if _, err := syscall.PtracePeekText(p.id, uintptr(regs.Rip), code[:]); err != nil {
			return 0, instruction{}, err
		}
		i = decode(code[:])
		p.known[regs.Rip] = i
	}
	return regs.Rip, i, nil
}

// tell answers a call of clock_gettime, and returns from it. Each answer is a nanosecond later.
func (p *process) tell(regs *syscall.PtraceRegs) error {
	p.now = p.now.Add(1)
	now := time.Duration(p.now.UnixNano())
	if regs.Rdi == unix.CLOCK_MONOTONIC {
		now -= p.booted
	}
	var answer, from [16]byte
	binary.LittleEndian.PutUint64(answer[:], uint64(now/time.Second))
	binary.LittleEndian.PutUint64(answer[8:], uint64(now%time.Second))
	if _, err := syscall.PtracePokeData(p.id, uintptr(regs.Rsi), answer[:]); err != nil {
		return err
	}
	if _, err := syscall.PtracePeekData(p.id, uintptr(regs.Rsp), from[:8]); err != nil {
		return err
	}
	regs.Rax, regs.Rip, regs.Rsp = 0, binary.LittleEndian.Uint64(from[:]), regs.Rsp+8
	return syscall.PtraceSetRegs(p.id, regs)
}

func wait(id int) (s syscall.WaitStatus, err error) {
	for {
		if _, err = syscall.Wait4(id, &s, syscall.WALL, nil); err != syscall.EINTR {
			return s, err
		}
	}
}

// stopOthers stops the threads of the process that are not stepped through. One of them would ask the
// goroutine to make way after 10 ms.
func (p *process) stopOthers() error {
	for more := true; more; {
		more = false
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.id))
		if err != nil {
			return err
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || id == p.id || slices.Contains(p.stopped, id) {
				continue
			}
			const seize, interrupt = 0x4206, 0x4207                // package syscall has no names for them
			if err := ptrace(seize, id, 0); err == syscall.ESRCH { // it has ended
				continue
			} else if err != nil {
				return fmt.Errorf("seize: %w", err)
			}
			if err := ptrace(interrupt, id, 0); err != nil {
				return fmt.Errorf("interrupt: %w", err)
			}
			if _, err := wait(id); err != nil {
				return err
			}
			p.stopped, more = append(p.stopped, id), true
		}
	}
	return nil
}

func ptrace(request uintptr, id int, data uintptr) error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PTRACE, request, uintptr(id), 0, data, 0, 0); e != 0 {
		return e
	}
	return nil
}

// clockOf finds the function of the kernel's code in the process that reads the clock.
func clockOf(id int) (at uint64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", id))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return 0, err
		}
		image := make([]byte, to-from)
		if _, err := syscall.PtracePeekText(id, uintptr(from), image); err != nil {
			return 0, err
		}
		file, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return 0, err
		}
		symbols, err := file.DynamicSymbols()
		for _, s := range symbols {
			if s.Name == "__vdso_clock_gettime" {
				at = from + s.Value
			}
		}
		if err != nil {
			return 0, err
		}
	}
	if at == 0 {
		return 0, fmt.Errorf("%w: this kernel has no clock_gettime in the process", errUnavailable)
	}
	return at, nil
}

// repeat is the child, until it is killed: it makes the call until everything that is made once is
// made, and then between breakpoints. While one is counted the goroutine is not tied to the thread, as a
// caller's is not.
func repeat(c *kase) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	call := c.start()
	for n := 0; n < warmCalls || worked() < warm; n++ {
		call()
	}
	runtime.UnlockOSThread()
	for {
		runtime.Breakpoint()
		call()
		runtime.Breakpoint()
	}
}

// warm is how long a child works before its calls are counted. A goroutine keeps a shard of the counters
// for a millisecond, and the first hundred successes in each are timed.
const warm = 60 * time.Millisecond

// warmCalls is how many calls it makes at least. Go keeps what a type assertion found one time in 1,024, so that
// with 1,000 calls some lines would still search.
const warmCalls = 10_000

// worked is how long this process has worked.
func worked() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
