package fleet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/policy"
)

// store stands for one of Redis, PostgreSQL or NATS.
func store() fleet.Store { return fleettest.NewMemory() }

func ExampleJoin() {
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"payments": {
		RateLimit: policy.RateLimit{Rate: 1000}, // of all processes together
		Fleet:     policy.Fleet{Rate: true},
	}})
	if err != nil {
		panic(err)
	}
	member, err := fleet.Join(context.Background(), registry, store(), fleet.Options{Name: "shop"})
	if err != nil {
		panic(err)
	}
	defer member.Close() // last, when no more calls are made
	for _, s := range member.Status().Shares {
		fmt.Println(s.Dependency, s.Limit, "of", s.Of)
	}
	// Output: payments rate of 1000
}

func ExampleSteer() {
	ctx, store := context.Background(), store()
	o, err := fleet.Steer(ctx, store, "shop", fleet.Override{
		Dependency: "payments", Action: fleet.ForceOpen, For: 5 * time.Minute, Who: "ada", Why: "INC-123",
	})
	fmt.Println(o.Action, o.Until.Sub(o.At), err)
	// Output: force-open 5m0s <nil>
}

func ExampleLift() {
	ctx, store := context.Background(), store()
	o, _ := fleet.Steer(ctx, store, "shop", fleet.Override{
		Dependency: fleet.Everything, Action: fleet.RetriesOff, For: time.Hour, Who: "ada", Why: "INC-123",
	})
	fmt.Println(fleet.Lift(ctx, store, "shop", o.ID, "bob", "it is mended"))
	fmt.Println(fleet.Lift(ctx, store, "shop", o.ID, "bob", "it is mended"))
	// Output:
	// <nil>
	// fleet: no such override is in force
}

func ExampleOverrides() {
	ctx, store := context.Background(), store()
	_, _ = fleet.Steer(ctx, store, "shop", fleet.Override{
		Dependency: "payments", Action: fleet.LimitRate, Rate: 50, For: time.Hour, Who: "ada", Why: "INC-123",
	})
	all, now, err := fleet.Overrides(ctx, store, "shop")
	for _, o := range all {
		fmt.Println(o.Dependency, o.Action, o.Rate, o.Who, o.Why, o.Active(now))
	}
	fmt.Println(err)
	// Output:
	// payments rate 50/s ada INC-123 true
	// <nil>
}
