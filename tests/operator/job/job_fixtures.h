#pragma once

namespace coxswain::test {

inline constexpr const char* kSmallestJob = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs:
    Worker: {replicas: 2}
  training:
    model: singa-cnn
    data: {format: mnist}
    epochs: 10
  volumes:
    checkpoints: {persistentVolumeClaim: {claimName: mnist-checkpoints}}
)";

inline constexpr const char* kEveryField = R"(apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: all, namespace: team, uid: u-1, resourceVersion: "77", generation: 3}
spec:
  strategy: ParameterServer
  launcher: Env
  slotsPerWorker: auto
  image: registry.example/trainer:1
  replicaSpecs:
    Worker:
      replicas: 4
      template: {spec: {containers: [{name: trainer, resources: {limits: {nvidia.com/gpu: 2}}}]}}
    Server: {replicas: 2}
  training: {model: mlp, data: {format: mnist}}
  volumes: {data: {emptyDir: {}}, checkpoints: {persistentVolumeClaim: {claimName: c}}}
  checkpoint: {everySteps: 100, everyEpochs: 2, everySeconds: 30, keep: 5, resume: false,
               maxFailures: 2}
  elasticPolicy: {minReplicas: 2, maxReplicas: 8, degradedStartAfterSeconds: 60, batch: perWorker}
  runPolicy:
    suspend: true
    backoffLimit: 6
    activeDeadlineSeconds: 3600
    startupDeadlineSeconds: 300
    terminationGracePeriodSeconds: 90
    stuckTerminationSeconds: 45
    cleanPodPolicy: All
    ttlSecondsAfterFinished: 100
    managedBy: coxswain.dev/operator
    schedulingPolicy: {gang: Volcano, queue: q, priorityClass: high, minAvailable: 3,
                       minResources: {cpu: 4}, scheduleTimeoutSeconds: 30}
  failurePolicy:
    rules:
    - {action: Fail, onExitCodes: [42, 43], onReasons: [Evicted], onRoles: [Worker, Server]}
  successPolicy: AllWorkers
  rendezvous: [PyTorch]
)";

}  // namespace coxswain::test
