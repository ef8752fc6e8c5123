module github.com/gabion-go/gabion/cmd/gabion

go 1.26.0

require (
	github.com/gabion-go/gabion v0.0.0
	github.com/gabion-go/gabion/contrib/boltstore v0.0.0
	github.com/gabion-go/gabion/contrib/gabionprom v0.0.0
	github.com/gabion-go/gabion/contrib/sqlitestore v0.0.0
	github.com/gabion-go/gabion/lab v0.0.0
	github.com/gabion-go/gabion/messages v0.0.0
	github.com/go-sql-driver/mysql v1.10.1
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/prometheus/client_golang v1.25.0
	github.com/prometheus/client_model v0.6.3
	github.com/prometheus/common v0.72.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.10
	go.opentelemetry.io/contrib/propagators/b3 v1.47.0
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp v1.47.0
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.47.0
	go.opentelemetry.io/otel/exporters/stdout/stdoutmetric v1.47.0
	go.opentelemetry.io/otel/exporters/stdout/stdouttrace v1.47.0
	go.opentelemetry.io/otel/metric v1.47.0
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/sdk/metric v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
	go.opentelemetry.io/proto/otlp v1.11.0
	golang.org/x/term v0.47.0
	google.golang.org/protobuf v1.36.12
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.83.2 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

require (
	github.com/gabion-go/gabion/contrib/gabionotel v0.0.0
	github.com/gabion-go/gabion/contrib/gabionpgx v0.0.0
	github.com/gabion-go/gabion/contrib/gabionredis v0.0.0
	github.com/gabion-go/gabion/contrib/mysqlstore v0.0.0
	github.com/gabion-go/gabion/contrib/natsmsg v0.0.0
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/jackc/pgx/v5 v5.12.0
	github.com/nats-io/nats.go v1.55.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.yaml.in/yaml/v4 v4.0.0
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	modernc.org/sqlite v1.60.1
)

replace (
	github.com/gabion-go/gabion => ../..
	github.com/gabion-go/gabion/contrib/boltstore => ../../contrib/boltstore
	github.com/gabion-go/gabion/contrib/gabionprom => ../../contrib/gabionprom
	github.com/gabion-go/gabion/contrib/sqlitestore => ../../contrib/sqlitestore
	github.com/gabion-go/gabion/lab => ../../lab
	github.com/gabion-go/gabion/messages => ../../messages
)

replace github.com/gabion-go/gabion/contrib/mysqlstore => ../../contrib/mysqlstore

replace github.com/gabion-go/gabion/contrib/natsmsg => ../../contrib/natsmsg

replace github.com/gabion-go/gabion/contrib/gabionpgx => ../../contrib/gabionpgx

replace github.com/gabion-go/gabion/contrib/gabionredis => ../../contrib/gabionredis

replace github.com/gabion-go/gabion/contrib/gabionotel => ../../contrib/gabionotel
