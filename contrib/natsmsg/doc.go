// Package natsmsg consumes messages of NATS JetStream under the policy of a gabion.Dependency,
// and publishes them.
//
//	c, err := consumer.New(billing, store, consumer.Options{Guarantee: consumer.Reexecute, Letters: letters})
//	…
//	_, err = js.CreateOrUpdateConsumer(ctx, "ORDERS", natsmsg.Config(c, "billing"))
//	…
//	err = natsmsg.Consume(ctx, js, "ORDERS", "billing", c, charge, natsmsg.Options{})
//
// [Consume] pulls. It asks the broker for as many messages as the policy has room for, and for none
// while the breaker refuses. Work that is done is acknowledged, and the broker confirms that. While
// work runs, heartbeats go to the broker. What failed comes again after the policy's wait, which the
// broker waits out. A message that is given up is stored before it is terminated at the broker.
package natsmsg
