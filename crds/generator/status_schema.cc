#include "crds/generator/status_schema.h"

namespace coxswain::crd {

namespace {

Json count(const std::string& meaning) {
  return described(meaning, {{"type", "integer"}, {"format", "int32"}});
}

Json restarts() {
  return object("Restarts by cause. Only `failure` spends backoffLimit.",
                {{"total", count("Restarts that nobody asked for: all but `resize`.")},
                 {"failure", count("The job's own failures.")},
                 {"preemption", count("Pods that were preempted, evicted or deleted.")},
                 {"node", count("Lost or drained nodes.")},
                 {"startup", count("Gangs that were not Running in time.")},
                 {"resize", count("New sizes.")}});
}

Json last_failure() {
  return object("What ended the last attempt: its first cause, not the avalanche after it.",
                {{"time", time("When it was seen.")},
                 {"attempt", count("In which attempt.")},
                 {"role", text("Role of the pod.")},
                 {"index", count("Index of the pod in its role.")},
                 {"rank", count("The rank, where the worker said which.")},
                 {"pod", text("The pod.")},
                 {"node", text("The pod's node.")},
                 {"exitCode", count("Exit code of the rank or container.")},
                 {"reason", text("The cause in a word.")},
                 {"phase", text("What the trainer was doing, as Load or AllReduce.")},
                 {"message", text("The cause in words.")}});
}

Json replica_counts(const std::string& role) {
  return object("Pods of role " + role + ".", {{"desired", count("Wanted in this attempt.")},
                                               {"ready", count("Ready now.")},
                                               {"active", count("Made, and not ended.")},
                                               {"succeeded", count("Ended well.")},
                                               {"failed", count("Ended badly.")}});
}

Json progress() {
  return object("How far training is, as rank 0 said last; best effort.",
                {{"epoch", big_integer("The epoch under way, from 1; the last one at the end.")},
                 {"epochs", big_integer("Epochs to do; 0 where `steps` alone ends the run.")},
                 {"step", big_integer("Steps done.")},
                 {"steps", big_integer("Steps to do.")},
                 {"loss", number("Loss of the last step, as mean over its samples; at the end that "
                                 "of the last evaluation.")},
                 {"accuracy", number("Share of right answers in the last evaluation; before it, of "
                                     "the training samples.")},
                 {"samplesPerSecond", number("Samples a second on all ranks together.")},
                 {"secondsLeft", number("Seconds to the end at this speed.")},
                 {"worldSize", count("Ranks.")},
                 {"scalingEfficiency", number("Share of their time in which ranks wait for no sum "
                                              "and no peer; 1 is perfect.")},
                 {"time", text("When rank 0 said so.")}});
}

Json checkpoint() {
  return object("The newest complete checkpoint.",
                {{"step", big_integer("Steps done at that time.")},
                 {"time", text("When it was complete.")},
                 {"path", text("Its folder on the volume.")},
                 {"bytes", big_integer("Its size.")}});
}

Json conditions() {
  const Json word = {{"type", "string"}, {"maxLength", 64}};
  Json condition =
      requiring(object("One aspect of the job's state.",
                       {{"type", described("Which aspect.", word)},
                        {"status", described("Whether it is so: True or False.", word)},
                        {"reason", text("Why, in a word.")},
                        {"message", text("Why, in words.")},
                        {"lastTransitionTime", time("When it became so.")},
                        {"observedGeneration", count("The spec's generation that it speaks of.")}}),
                {"type", "status"});
  Json schema = list(
      "Invalid, ResourcesRejected, Suspended, Queued, Ready, Running, Restarting, Degraded, "
      "Succeeded, Failed. The last two never change.",
      std::move(condition), 32);
  schema["x-kubernetes-list-type"] = "map";
  schema["x-kubernetes-list-map-keys"] = {"type"};
  return schema;
}

}  // namespace

Json status_schema() {
  return object(
      "What was decided and seen. Only the operator writes it.",
      {{"phase", text("The state in a word, made of the conditions.")},
       {"ready", text("Workers that are Ready, of those wanted.")},
       {"attempt", count("One more for every new gang: failure, preemption, node, startup, resume, "
                         "resize.")},
       {"workers", count("The size of this attempt; 0 where no gang is wanted.")},
       {"hostPort", count("The first of this attempt's four ports of a node: SSH, rank endpoint, "
                          "server, MASTER_PORT. Only with hostNetwork.")},
       {"image", text("The trainer image, fixed at the first start.")},
       {"keysSecret", text("The Secret that was made for the job's keys.")},
       {"restarts", restarts()},
       {"backoffStep", count("Restarts since the last 10 minutes of Running.")},
       {"attemptStartTime", time("When this attempt was decided.")},
       {"nextRetryTime", time("When the next gang is made.")},
       {"succeededRanks", text("Workers that ended well, as 0-3,7.")},
       {"podGroup", text("The gang scheduler whose PodGroup the job's pods have.")},
       {"lastFailure", last_failure()},
       {"replicaStatuses", object("Pods of this attempt, by role.",
                                  {{"Worker", replica_counts("Worker")},
                                   {"Server", replica_counts("Server")}})},
       {"progress", progress()},
       {"checkpoint", checkpoint()},
       {"conditions", conditions()},
       {"startTime", time("The first Running since the job was last resumed.")},
       {"completionTime", time("When the job succeeded or failed.")},
       {"observedGeneration", count("The spec's generation that this status speaks of.")},
       {"selector", text("Selects the job's workers, for the scale subresource.")}});
}

}  // namespace coxswain::crd
