#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/api_server.h"
#include "tests/simulation/history_laws.h"

namespace coxswain::test {

inline constexpr const char* kNamespace = "default";

// The API server with everything around it but the operator: kubelets, which let every pod run
// after a second, the garbage collector, and users, whose hands these functions are. Names are
// those of objects in one namespace.
class Scene {
 public:
  ApiServer server;
  HistoryLaws laws{server};
  std::set<std::string> unschedulable;  // names of pods

  void step();  // one second

  void create_job(const std::string& name, const Json& spec);
  void edit_spec(const std::string& name, const Json& merge_patch);
  void delete_job(const std::string& name);

  void end_pod(const std::string& name, int exit_code, const std::string& reason = "");
  // Failed, without container statuses.
  void shut_down_node_of(const std::string& name, const std::string& reason = "NodeShutdown");
  void preempt(const std::string& name);
  void lose_node_of(const std::string& name);  // told to leave, never ends
  void delete_pod(const std::string& name);
  void mute(const std::string& name);  // its node never says anything again

  Json status_of(const std::string& job) const;  // an object, empty where there is none
  std::string phase_of(const std::string& job) const;
  bool has_condition(const std::string& job, const std::string& type) const;
  Object pod(const std::string& name) const;
  std::vector<Object> pods() const;
  // `count` pods of the attempt are Ready, and all that are there are of it.
  bool is_ready(int attempt, int count) const;
  int living_pods() const;

  // What counts at the end, without times, versions, uids and words.
  Json end_state() const;

 private:
  void live(const Json& pod);
  void edit_pod(const std::string& name, const std::function<void(Json&)>& change);

  std::set<std::string> mute_;  // uids
};

}  // namespace coxswain::test
