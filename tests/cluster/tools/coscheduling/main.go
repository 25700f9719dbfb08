// A kube-scheduler with the plug-in Coscheduling of kubernetes-sigs/scheduler-plugins, and none of
// its other plug-ins.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
)

func main() {
	command := scheduler.NewSchedulerCommand(
		scheduler.WithPlugin(coscheduling.Name, coscheduling.New))
	os.Exit(cli.Run(command))
}
