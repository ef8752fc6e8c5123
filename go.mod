module github.com/gabion-go/gabion

go 1.26

require go.yaml.in/yaml/v4 v4.0.0
