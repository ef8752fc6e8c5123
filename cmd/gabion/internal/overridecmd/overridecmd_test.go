package overridecmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
	"github.com/gabion-go/gabion/cmd/gabion/internal/fleetcmd"
	"github.com/gabion-go/gabion/cmd/gabion/internal/overridecmd"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxfleet"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisfleet"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

func TestMain(m *testing.M) {
	if args := os.Getenv("GABION_TEST_OVERRIDE"); args != "" {
		os.Exit(cli.Run(context.Background(), overridecmd.Command(), strings.Fields(args), os.Stdout, os.Stderr))
	}
	os.Unsetenv("GABION_FLEET_STORE")
	os.Unsetenv("GABION_FLEET")
	os.Exit(m.Run())
}

// run runs one of the two commands.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := overridecmd.Command()
	if args[0] == "fleet" {
		c = fleetcmd.Command()
	}
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), c, args[1:], &out, &errs)
	return code, out.String(), errs.String()
}

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"override", "say which dependency"},
		{"override payments", "say which dependency"},
		{"override payments force-opne --for 5m --why x --store redis://h", "did you mean force-open?"},
		{"override payments force-open --why x --store redis://h", "say with --for how long"},
		{"override payments force-open --for 25h --why x --store redis://h", "--for is at most 24h"},
		{"override payments force-open --for 5m --store redis://h", "say with --why why"},
		{"override payments rate --for 5m --why x --store redis://h", "say which rate"},
		{"override payments rate 50 --for 5m --why x --store redis://h", "such as 50/s"},
		{"override payments rate 0/s --for 5m --why x --store redis://h", "such as 50/s"},
		{"override payments rate NaN/s --for 5m --why x --store redis://h", "such as 50/s"},
		{"override payments observe now --for 5m --why x --store redis://h", `"now" is not expected`},
		{"override payments observe --for 5m --why x", "--store is missing"},
		{"override payments observe --for 5m --why x --store mysql://h", "--store begins with redis://"},
		{"override kill all --for 5m --why x --store redis://h", `"all" is not expected`},
		{"override payments observe --all=false --for 5m --why x --store redis://h", "for all processes"},
		{"override lift --why x --store redis://h", "say which by its ID"},
		{"override lift a --store redis://h", "say with --why why"},
		{"override list all --store redis://h", `"all" is not expected`},
		{"fleet status --store redis://h x", `"x" is not expected`},
		{"fleet status --store redis://h --fleet shop/eu", "--fleet shop/eu: a fleet's name has letters"},
		{"fleet", "say what to do"},
	} {
		if code, _, stderr := run(t, strings.Fields(c.args)...); code != cli.ExitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: code %d, %.200s", c.args, code, stderr)
		}
	}
}

// A fleet of one member, and an operator.
func TestAnOperatorSteersAFleet(t *testing.T) {
	addr := testservers.Redis(t)
	admin := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { admin.Close() })
	url := "redis://" + addr
	do := func(code int, says string, args ...string) string {
		t.Helper()
		args = append(args, "--store", url, "--fleet", "shop")
		got, stdout, stderr := run(t, args...)
		if got != code || !strings.Contains(stdout+stderr, says) {
			t.Errorf("%v: code %d, want %d and %q: %s%s", args, got, code, says, stdout, stderr)
		}
		return stdout
	}
	do(cli.ExitFindings, "no members", "fleet", "status")
	do(cli.ExitOK, "no override is in force", "override", "list")
	do(cli.ExitOK, "note: the fleet shop has no members now", "override", "payments", "observe", "--for", "1s", "--why", "INC-122")
	join(t, admin)
	do(cli.ExitOK, "note: no member has a dependency paymnts; did you mean payments?", "override", "paymnts", "observe", "--for", "1s", "--why", "INC-122")
	made := do(cli.ExitOK, "force-open for payments, until ", "override", "payments", "force-open", "--for", "5m", "--all", "--why", "INC-123", "--who", "ann")
	do(cli.ExitOK, "rate 1.66667/s for payments", "override", "payments", "rate", "100/m", "--for", "5m", "--why", "INC-124")
	do(cli.ExitOK, "retries-off for all dependencies", "override", "kill", "--for", "1h", "--why", "INC-125")
	id := regexp.MustCompile(`^\w+`).FindString(made)
	for _, says := range []string{id + "  force-open for payments", "for 4m more", "ann      INC-123", "retries-off for all dependencies"} {
		do(cli.ExitOK, says, "override", "list")
	}
	do(cli.ExitOK, id+" is lifted", "override", "lift", id, "--why", "it is well", "--who", "bob")
	do(cli.ExitFindings, "no such override is in force", "override", "lift", id, "--why", "again")
	do(cli.ExitOK, "by bob: it is well", "override", "list")
	for _, says := range []string{"fleet shop: 1 member, shares were divided", "v1.2", "payments rate  100", "INC-125", "payments  ", "rate 100/m of payments"} {
		do(cli.ExitOK, says, "fleet", "status", "--members")
	}
	var status struct {
		Members   []struct{ ID, Version string }
		Overrides []struct{ Why string }
	}
	if err := json.Unmarshal([]byte(do(cli.ExitOK, "", "fleet", "status", "--json")), &status); err != nil || len(status.Members) != 1 || status.Members[0].ID != "pod-1" || len(status.Overrides) != 5 {
		t.Errorf("%+v, %v", status, err)
	}
	var list struct {
		Overrides []struct {
			InForce bool    `json:"in_force"`
			Rate    float64 `json:"rate_per_second"`
		}
	}
	if err := json.Unmarshal([]byte(do(cli.ExitOK, "", "override", "list", "--json")), &list); err != nil || len(list.Overrides) != 5 || list.Overrides[2].InForce || !list.Overrides[3].InForce {
		t.Errorf("%+v, %v", list, err)
	}

	for _, misspelled := range [][]string{{"fleet", "status"}, {"override", "payments", "observe", "--for", "1s", "--why", "INC-0"}} {
		if _, _, stderr := run(t, append(misspelled, "--store", url, "--fleet", "shpo")...); !strings.Contains(stderr, "the store has shop; did you mean --fleet shop?") {
			t.Errorf("%v of another fleet: %s", misspelled, stderr)
		}
	}
	if _, _, stderr := run(t, "fleet", "status", "--store", url, "--fleet", "shp"); !strings.Contains(stderr, "the store has shop; did you mean --fleet shop?") {
		t.Errorf("a fleet that has only overrides is said to be there: %s", stderr)
	}

	// The store refuses one who may only look, and nothing is half done.
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "looker", "on", ">x", "~gabion:fleet:*", "+@connection", "+eval", "+evalsha", "+time", "+hget", "+hgetall").Err(); err != nil {
		t.Fatal(err)
	}
	url = "redis://looker:x@" + addr
	do(cli.ExitFindings, "the store refuses, and nothing was changed", "override", "payments", "observe", "--for", "5m", "--why", "INC-126")
	if _, stdout, stderr := run(t, "override", "list", "--store", url, "--fleet", "shop"); strings.Contains(stdout, "INC-126") || stderr != "" || !strings.Contains(stdout, "INC-125") {
		t.Errorf("after a refusal: %s%s", stdout, stderr)
	}
	url = "redis://looker:wrong@" + addr
	do(cli.ExitFailure, "WRONGPASS", "override", "list")
}

// So does PostgreSQL.
func TestAnOperatorWithoutTheRightToWrite(t *testing.T) {
	dsn := testservers.Postgres(t)
	if code, _, stderr := run(t, "fleet", "status", "--store", dsn); code != cli.ExitFailure || !strings.Contains(stderr, "gabion fleet status: the table is missing: --table names") || strings.Contains(stderr, "changed") {
		t.Errorf("without a table: code %d, %s", code, stderr)
	}
	admin, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	table, err := pgxfleet.New(admin, "gabion_fleet")
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"CREATE ROLE looker LOGIN", "GRANT SELECT ON gabion_fleet TO looker"} {
		if _, err := admin.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	looker := strings.Replace(dsn, "postgres@", "looker@", 1)
	kill := func(store, why string) (int, string) {
		code, _, stderr := run(t, "override", "kill", "--for", "5m", "--why", why, "--store", store)
		return code, stderr
	}
	if code, stderr := kill(dsn, "INC-1"); code != cli.ExitOK {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if code, stderr := kill(looker, "INC-2"); code != cli.ExitFindings || !strings.Contains(stderr, "the store refuses, and nothing was changed: the user may not do this") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if _, err := admin.Exec(t.Context(), "INSERT INTO gabion_fleet (key, ends, value) VALUES ('shop/pool', 0, '')"); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "fleet", "status", "--store", looker, "--fleet", "shpo"); code != cli.ExitFindings || !strings.Contains(stderr, "the store has shop; did you mean --fleet shop?") {
		t.Errorf("of another fleet: code %d: %s", code, stderr)
	}
	code, stdout, stderr := run(t, "override", "list", "--store", looker)
	if code != cli.ExitOK || strings.Contains(stdout, "INC-2") || !strings.Contains(stdout, "INC-1") {
		t.Errorf("code %d: %s%s", code, stdout, stderr)
	}
}

// The client of Redis has a log of its own, which would stand between the lines of the command.
func TestAStoreThatCannotBeReachedIsSaidOnce(t *testing.T) {
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "GABION_TEST_OVERRIDE=list --store redis://127.0.0.1:1")
	out, err := c.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "gabion override list: ") || strings.Contains(string(out), "redis: 2") || strings.Contains(string(out), ".go:") {
		t.Errorf("%v: %s", err, out)
	}
}

// join makes this process a member.
func join(t *testing.T, client *redis.Client) {
	t.Helper()
	store, err := redisfleet.New(client, redisfleet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {RateLimit: policy.RateLimit{Rate: 100}, Fleet: policy.Fleet{Rate: true}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := fleet.Join(context.WithoutCancel(t.Context()), r, store, fleet.Options{Name: "shop", ID: "pod-1", Version: "v1.2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
}
