package pgxfleet_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxfleet"
	"github.com/gabion-go/gabion/fleet"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://shop@127.0.0.1/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	store, err := pgxfleet.New(pool, "gabion_fleet")
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := store.Do(ctx, fleet.Batch{List: "shop/pods/"}) // fleet.Join has more to ask
	fmt.Println(len(r.Items), "members", err)
}
