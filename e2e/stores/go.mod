module github.com/gabion-go/gabion/e2e/stores

go 1.26.0

replace (
	github.com/gabion-go/gabion => ../..
	github.com/gabion-go/gabion/contrib/boltstore => ../../contrib/boltstore
	github.com/gabion-go/gabion/contrib/mysqlstore => ../../contrib/mysqlstore
	github.com/gabion-go/gabion/contrib/natsstore => ../../contrib/natsstore
	github.com/gabion-go/gabion/contrib/pgxstore => ../../contrib/pgxstore
	github.com/gabion-go/gabion/contrib/redisstore => ../../contrib/redisstore
	github.com/gabion-go/gabion/contrib/sqlitestore => ../../contrib/sqlitestore
)

require (
	github.com/gabion-go/gabion v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/boltstore v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/mysqlstore v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/natsstore v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/pgxstore v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/redisstore v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/sqlitestore v0.0.0-00010101000000-000000000000
	github.com/jackc/pgx/v5 v5.12.0
	github.com/nats-io/nats-server/v2 v2.15.2
	github.com/nats-io/nats.go v1.55.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.60.1 // indirect
)
