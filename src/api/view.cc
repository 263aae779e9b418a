// ftarView*, ftarJobGetView, ftarGroupGetView: snapshots.
#include <memory>
#include <set>
#include <string>

#include "api/call.h"
#include "api/objects.h"
#include "api/structs.h"
#include "api/translate.h"
#include "ftar/ftar.h"

using namespace ftar;  // NOLINT: the C functions below live outside every namespace
using api::Call;
using api::CallFor;
using api::Where;

namespace {

Status AddView(std::shared_ptr<api::ViewObject> object, ftarView_t* view) {
  if (object->view == nullptr) return Status(Code::kState, "the job is not in a view yet");
  Expected<ftarView_t> handle = api::AddHandle<ftarView_t>(std::move(object));
  if (handle.ok()) *view = *handle;
  return handle.status();
}

Status Destroyed() { return Status(Code::kState, "the job of this handle was destroyed"); }

ftarViewInfo InfoOf(const api::ViewObject& object) {
  ftarViewInfo info = FTAR_VIEW_INFO_INIT;
  std::set<int32_t> replicas, shards;
  int32_t rank = 0;
  for (const wire::ViewEntry& entry : object.view->entries) {
    replicas.insert(entry.card.replica);
    shards.insert(entry.card.shard);
    if (entry.card.id == object.self) info.my_rank = rank;
    ++rank;
  }
  info.epoch = object.view->epoch;
  info.members = rank;
  info.replicas = static_cast<int32_t>(replicas.size());
  info.shards = static_cast<int32_t>(shards.size());
  info.first_seq = object.first_seq;
  info.my_id = api::ToPublic(object.self);
  return info;
}

ftarMemberInfo MemberOf(const api::ViewObject& object, int32_t rank) {
  const wire::ViewEntry& entry = object.view->entries[static_cast<size_t>(rank)];
  ftarMemberInfo info = FTAR_MEMBER_INFO_INIT;
  info.id = api::ToPublic(entry.card.id);
  info.rank = rank;
  info.replica = entry.card.replica;
  info.shard = entry.card.shard;
  info.weight = 1;
  info.joined_epoch = entry.joined_epoch;
  api::CopyText(entry.card.host, info.host);
  info.first_seq = object.of_group ? entry.first.SeqIn(object.key) : 0;
  return info;
}

}  // namespace

ftarResult_t ftarJobGetView(ftarJob_t job, ftarView_t* view) {
  return CallFor(view, "ftarJobGetView", Where::kAnywhere, [&] {
    const auto owner = api::FindHandle(job);
    if (owner == nullptr) return api::BadHandle(api::HandleKind::kJob, job);
    if (view == nullptr) return Status(Code::kArg, "view", "view is null");
    auto object = std::make_shared<api::ViewObject>();
    object->view = owner->job->view();
    object->self = owner->job->self();
    return AddView(std::move(object), view);
  });
}

ftarResult_t ftarGroupGetView(ftarGroup_t group, ftarView_t* view) {
  return CallFor(view, "ftarGroupGetView", Where::kAnywhere, [&] {
    const auto owner = api::FindHandle(group);
    if (owner == nullptr) return api::BadHandle(api::HandleKind::kGroup, group);
    if (view == nullptr) return Status(Code::kArg, "view", "view is null");
    if (owner->job->destroyed.load()) return Destroyed();
    const runtime::GroupInfo info = owner->job->job->group_info(owner->group);
    auto object = std::make_shared<api::ViewObject>();
    object->view = owner->job->job->group_view(owner->group);
    object->self = info.self;
    object->of_group = true;
    object->key = owner->key;
    object->first_seq = info.first_seq;
    return AddView(std::move(object), view);
  });
}

ftarResult_t ftarViewGetInfo(ftarView_t view, ftarViewInfo* info) {
  return Call("ftarViewGetInfo", Where::kAnywhere, [&] {
    const auto object = api::FindHandle(view);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kView, view);
    FTAR_RETURN_IF_ERROR(api::CheckOutput(info, "info"));
    api::WriteStruct(InfoOf(*object), info);
    return Status::Ok();
  });
}

ftarResult_t ftarViewGetMember(ftarView_t view, int32_t rank, ftarMemberInfo* info) {
  return Call("ftarViewGetMember", Where::kAnywhere, [&] {
    const auto object = api::FindHandle(view);
    if (object == nullptr) return api::BadHandle(api::HandleKind::kView, view);
    FTAR_RETURN_IF_ERROR(api::CheckOutput(info, "info"));
    if (rank < 0 || static_cast<size_t>(rank) >= object->view->entries.size()) {
      return Status(Code::kArg, "rank",
                    "rank is " + std::to_string(rank) + ", the view has " +
                        std::to_string(object->view->entries.size()) + " members");
    }
    api::WriteStruct(MemberOf(*object, rank), info);
    return Status::Ok();
  });
}

ftarResult_t ftarViewRelease(ftarView_t view) {
  return Call("ftarViewRelease", Where::kAnywhere, [&] {
    if (view == nullptr || api::RemoveHandle(view) != nullptr) return Status::Ok();
    return api::BadHandle(api::HandleKind::kView, view);
  });
}
