//go:build tools

// Package helm pins the Helm that renders and lints the chart.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
