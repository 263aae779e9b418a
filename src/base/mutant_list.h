// The planted mistakes (mutant.h): name, the rule of the protocol that it breaks, and the mistake
// in one line. In the order of the rules.
#ifndef FTAR_BASE_MUTANT_LIST_H_
#define FTAR_BASE_MUTANT_LIST_H_

// clang-format off
#define FTAR_MUTANT_LIST(X) \
  X(kDeliverWhenComplete, "V1", "delivers what is complete here, without waiting for the others") \
  X(kAckOffByOne, "V1", "takes an ack below an operation for one of the operation itself") \
  X(kWeightlessNotAwaited, "V1", "does not wait for the acks of members with weight 0") \
  X(kCompleteOutlivesVerdict, "V1", "acknowledges what the next verdict begins anew") \
  X(kHubSpeaksEarly, "V1", "tells all that all are complete when it is itself") \
  X(kSkipFreeze, "V2", "reports its status and goes on as if nothing were") \
  X(kWorkOutlivesFreeze, "V2", "lets a reduction of the old attempt count after the freeze") \
  X(kDecideWithoutLast, "V3", "decides without the status of the last member in the list") \
  X(kCommitIncomplete, "V3", "commits although a survivor is not complete") \
  X(kDeliveredNotComplete, "V3", "does not count who has delivered among the complete") \
  X(kSalvageMixesAttempts, "V3", "collects the chunks of a salvage from different attempts") \
  X(kSalvageWithHoles, "V3", "salvages although nobody holds some of the chunks") \
  X(kSalvageCommits, "V4", "delivers a salvaged operation without a new stability round") \
  X(kSalvageAwaitsTheDead, "V4", "asks the attempt's members for the stability of a salvage") \
  X(kSalvageInNewView, "V4", "gives a salvaged attempt the members of the new view") \
  X(kMismatchIgnored, "V5", "drops a piece of another call and asks nobody") \
  X(kFailureUntold, "V5", "does not report the failures that it has delivered") \
  X(kFailureIsOverdue, "V5", "accuses of a deadline who has not called what has failed") \
  X(kFailsOnInstall, "V5", "delivers a failure before all have heard of it") \
  X(kFailKeepsOutput, "V5", "leaves the bytes that have landed when an operation fails") \
  X(kFailKeepsShadow, "V5", "fails in place without giving the moved input back") \
  X(kRootGoneRetries, "V5", "retries a broadcast whose root is gone") \
  X(kAskOnlyOnce, "V5", "does not ask a restarted coordinator again for a verdict") \
  X(kVerdictNotKept, "V6", "keeps no verdict for an operation that it has not called yet") \
  X(kHoldersOfToday, "V6", "asks for a kept salvage by the ranks of the view of today") \
  X(kKeptFailureUntold, "V6", "does not report failures of operations that it has not called yet") \
  X(kVerdictOutlivesEra, "V6", "applies a kept verdict after another change has overruled it") \
  X(kWeightlessInputRead, "V7", "adds its own input although its weight is 0") \
  X(kWeightForgotten, "V7", "keeps a piece for the retry, but not the weight that came with it") \
  X(kSegmentlessUntold, "V7", "tells no weights to who has no segment of a reduce-scatter") \
  X(kLeaverCounts, "V7", "lets a leaver's stand-in take part with weight 1") \
  X(kStrictSalvaged, "V8", "salvages operations of a step that asked for one participant set") \
  X(kStatusOutlivesPrepare, "V10", "decides from statuses that were given for an older Prepare") \
  X(kVerdictsOutlivePrepare, "V10", "installs with the verdicts of an older Prepare") \
  X(kInstallOfAnyEpoch, "V10", "obeys an Install of an epoch other than the one last promised") \
  X(kEarlierLossUntold, "V10", "tells its user the losses of its last Install, no earlier ones") \
  X(kLeaveToldTwice, "V10", "tells of who leaves with every view again") \
  X(kHeardEpochForgotten, "Q1", "begins below epochs that members have told it of") \
  X(kOldPrepareObeyed, "Q2", "promises an epoch below the one promised last") \
  X(kPromisedUnawaited, "Q2", "goes on without those whom a promise names beside the base") \
  X(kPromiseForgotten, "Q3", "takes what it promised to another coordinator for void") \
  X(kNewcomerSurvives, "Q3", "counts who came by a planned view among the survivors of a Prepare") \
  X(kLatestSurvives, "Q3", "counts all as survivors where all have come by planned views") \
  X(kEvictedMayReturn, "Q3", "lets an evicted incarnation in again") \
  X(kAnnouncedLeftOut, "Q3", "leaves a newcomer out that was announced, and takes it in later") \
  X(kNewcomersPromiseIgnored, "Q3", "does not hear by a newcomer who has been left out") \
  X(kRevokedMayJoin, "Q3", "takes a newcomer in whom others may have gone on without") \
  X(kAnyBase, "Q4", "goes on from the view of whoever reported last, not from the highest") \
  X(kReportForgotten, "Q4", "forgets what was reported by who is gone again") \
  X(kRecordIgnored, "Q4", "goes on with whoever is back, whatever its predecessor has recorded") \
  X(kRecordAfterSend, "Q4", "records a view when a member has installed it") \
  X(kNoMajority, "Q4", "takes over with whoever is there, without a quorum") \
  X(kDeadVote, "Q4", "counts the proven dead among those who have promised") \
  X(kDeadLeaveQuorum, "Q4", "takes the proven dead out of the number that the majority is of") \
  X(kAnyProofCounts, "Q4", "counts proof of a death that came long after it lost the dead one") \
  X(kPlanOfThePastWins, "Q4", "begins at the highest epoch, though its era has ended") \
  X(kAnyHostCounts, "Q4", "counts a death that it saw beside a coordinator without a quorum") \
  X(kLedAsleep, "Q4", "counts a death that it heard of after it had been stopped itself") \
  X(kInstallsUnheard, "Q4", "numbers a view before who is left out can have heard of it") \
  X(kInstalledBaseAlone, "Q4", "counts a majority of the newest view alone, formed or not") \
  X(kDeadTakenBack, "Q4", "takes a replica back of which one is proven dead") \
  X(kMinReplicasIgnored, "Q4", "forms a view of fewer replicas than the job needs") \
  X(kPlanOfThePastOvertakes, "Q5", "gives way to a plan that died with the era before") \
  X(kHandsOverUnheld, "Q5", "hands over before all hold the view without it") \
  X(kGoodbyesUnawaited, "Q5", "hands over while another that leaves has not said goodbye yet") \
  X(kPromisedElsewhere, "Q5", "leaves a member to wait for a change that another had asked for") \
  X(kPromisedBefore, "Q3", "takes a promise of when it coordinated before for its own") \
  X(kPlanOutdoesPromise, "Q3", "takes a promise for outdone by a plan with a higher number") \
  X(kPromisedAlone, "Q3", "goes on with those who have promised the most, or with nobody") \
  X(kMeetingForgotten, "Q5", "looks for nobody but those whom it knows, for ever") \
  X(kGoneCountAsAway, "Q5", "keeps who has left in the view, for a successor to miss") \
  X(kLeavesUnreplaced, "Q5", "stands down when its own member leaves, without a view without it") \
  X(kLossIsConsent, "Q4", "takes who is lost for one who consents") \
  X(kViewlessNeverLeads, "Q5", "takes nothing over while it holds no view of those it is in") \
  X(kLeaversCountAsGone, "Q5", "misses no part of a replica that leaves, gone or not") \
  X(kReportsNotAwaited, "Q5", "gives up whom it has not heard before it has heard a quorum") \
  X(kGoneWithAllLost, "Q7", "after a restart takes who has gone where all leave for lost") \
  X(kSuspectsAtOnce, "Q7", "evicts whoever is not back at once after the coordinator's restart") \
  X(kHeardAgainAlone, "Q7", "lets newcomers wait on when a silent member is heard again") \
  X(kCutOffIsDeath, "Q7", "takes for lost whose connection ends because itself was cut off") \
  X(kTrustsItself, "Q7", "does not suspect itself when most connections close at once") \
  X(kTroubleIsOver, "Q7", "takes for dead who comes back early and is cut off once more") \
  X(kEndsInHaste, "Q7", "ends the job at once when all replicas lack somebody") \
  X(kMembersAloneCount, "Q7", "counts no newcomers' connections among those that close at once") \
  X(kRestoredLinkCounts, "Q7", "evicts for a link that is up again") \
  X(kMuteConnectionsCount, "Q7", "takes connections that nothing comes on for some that are up") \
  X(kOldReportsStand, "Q7", "believes what was said of links on a connection that has ended") \
  X(kLinkBackUntold, "Q7", "forgets a link that came up while it had no coordinator") \
  X(kAwayLinkKept, "Q7", "keeps a lost link as up if its other end is away") \
  X(kFreshEdgeCounts, "Q7", "evicts for a link that has just failed, beside one that has long") \
  X(kEntersUnheard, "Q7", "beats from its first view on, not when others may hold one") \
  X(kRelayNewcomersStay, "Q7", "lets newcomers wait at a relay that their mates have not found") \
  X(kRelayLossIsDeath, "Q7", "takes a relay's loss for the loss of all behind it") \
  X(kRelayStillCounts, "Q7", "takes who has left a relay that stood still for dead") \
  X(kRelayDecidesWithoutLast, "Q7", "speaks for all behind a relay when the last is missing") \
  X(kRelayOldWordCounts, "Q7", "counts a decision of an older change behind a relay") \
  X(kRelayAggregateOutlives, "Q7", "keeps what was decided behind a relay for the next Prepare") \
  X(kRelayLinkedByOne, "Q7", "calls units linked when one of their columns is") \
  X(kRelayLinkBackByOne, "Q7", "calls the link of units restored with the first of its columns") \
  X(kRelayInstalledByOne, "Q7", "reports a view as installed when one behind the relay holds it") \
  X(kRelayMissesHolders, "Q7", "a relay misses nobody who has not said that it holds the view") \
  X(kRelayHidesTheLast, "Q2", "reports what one behind the relay holds as held by all") \
  X(kUpperRelayStays, "Q7", "an upper relay takes all behind a lower one that is lost for dead") \
  X(kRelayMixesLives, "Q7", "lets a newcomer stand behind a relay for one that was in") \
  X(kRelayPreparedUntold, "Q7", "names newcomers to a relay that has not heard who they are") \
  X(kLateRosterUntold, "Q7", "forgets who is behind a relay that was away at its restart") \
  X(kViewlessInChange, "Q7", "leaves a relay that came in a change without the view before it") \
  X(kRelayToldUnsaid, "J1", "does not report behind a relay what its members are told to begin") \
  X(kLateInstallUnasked, "Q2", "leaves a newcomer alone that has installed an older view since") \
  X(kRelayBrokenKept, "Q7", "recovers with newcomers whose relay says that one of them is lost") \
  X(kRelayReservesFirst, "J4", "reserves the boundary of a relay's first column, not the latest") \
  X(kRelayConfirmsForAll, "J3", "confirms for all behind a relay when one has") \
  X(kAbortedGoesOn, "Q8", "takes part after it has returned a terminal error") \
  X(kOldTermStands, "J1", "wakes for when it would have gone, though it may go no more") \
  X(kLeaveBoundForgotten, "J1", "forgets a leaver's end when a failure interrupts") \
  X(kOldFirstKept, "J1", "begins where it would have, though that is moved or void now") \
  X(kQueuedCallsVoid, "J1", "moves a newcomer whose steps have begun but whose calls wait") \
  X(kActedNewcomerVoid, "J1", "voids the boundary of a newcomer that has begun") \
  X(kUnheardPlanBinds, "J1", "keeps a boundary that nobody but its idle newcomer knows") \
  X(kLateAnnouncement, "J1", "obeys an announcement after it has promised a Prepare") \
  X(kVoidNumberReused, "J1", "gives the number of a voided plan to the next view") \
  X(kDeliveredFromZero, "J2", "counts what lies before a newcomer's first operation as delivered") \
  X(kNoWindow, "J3", "starts operations beyond the window") \
  X(kHeldBoundaryStarted, "J3", "lets the root start at a boundary that it has not announced") \
  X(kAcksNotHeld, "J3", "lets the root's acks allow others to pass a boundary it has reserved") \
  X(kBoundaryTooNear, "J3", "reserves a boundary that others may have passed") \
  X(kPlansStarve, "J3", "puts joins and leaves off for as long as changes follow each other") \
  X(kFreshBoundDelivered, "J3", "begins a newcomer behind what is delivered, not what is called") \
  X(kBeginsAmongTheLost, "J3", "begins newcomers where only those who are lost may have been") \
  X(kEndedCallsLast, "J1", "begins a newcomer where a leaver ended, not where others have called") \
  X(kStartsOnConfirm, "J3", "lets a newcomer begin before it knows of the announcement") \
  X(kAnnouncedUnconfirmed, "J3", "announces before the newcomers have confirmed") \
  X(kNewcomerNotTold, "J3", "announces to the members that are in, and not to the newcomers") \
  X(kUnlinkedEnters, "J3", "takes a newcomer in whose links are not up") \
  X(kWaitersUncalled, "J3", "asks no newcomer that waits when the quorum is lost") \
  X(kPlanOnPlan, "J3", "lets a planned view ride on one whose boundary is not passed") \
  X(kColumnsApart, "J4", "lets each column keep the boundary it has found itself") \
  X(kStepTooNear, "J4", "reserves the next step as a boundary") \
  X(kReservedStepBegun, "J4", "begins a step before it has announced the reserved boundary") \
  X(kRunsAheadOfRoot, "J4", "begins a step without having heard that the root is near") \
  X(kOwnWordOfABoundary, "J4", "tells who joins at a step by its own view, not as others have") \
  X(kRootBeginsBefore, "J4", "enters as the root before a step that others know the beginning of") \
  X(kVoidMarkBack, "J4", "believes a mark that a change has made void since") \
  X(kAnyonesMark, "J4", "takes any survivor's word of a step, though its era has ended") \
  X(kOldMarkForgotten, "J4", "does not look for its first step among the marks that it holds") \
  X(kBeginningForgotten, "J4", "forgets where the step begins that a newcomer enters at") \
  X(kInstallAtFirstColumn, "J4", "installs when one column has decided") \
  X(kOwnBoundsAlone, "J5", "learns from verdicts where it begins and ends itself, not others") \
  X(kEndUnheard, "J5", "goes on behind the end of a leaver that may not know of it") \
  X(kGoesWithoutBound, "J5", "goes when it is released, whether it has passed its end or not") \
  X(kEndForgotten, "J5", "forgets where the step begins that a leaver has to pass") \
  X(kMarksAheadForgotten, "J5", "forgets where steps begin that only a lost root had begun") \
  X(kBeginsAtItsBoundary, "J5", "a leaver takes who comes to begin at its bound itself") \
  X(kLeaversCallsAwaited, "J5", "a leaver waits for calls that another leaver does not make") \
  X(kUntoldStepIsFirst, "J5", "lets a leaver wait for calls of steps before one that is not told") \
  X(kEarlyLeaverLost, "J5", "takes for lost who leaves before all columns know of its end") \
  X(kGoneLeaverLost, "J5", "takes a leaver for lost that had gone when the coordinator restarted") \
  X(kGoneLeaverAwaited, "J5", "leaves a leaver in the view that did not come to its successor") \
  X(kGoesUnheard, "J5", "goes while the coordinator is away, and is taken for lost") \
  X(kUnannouncedLost, "J5", "takes a leaver for lost whose announcement it has not heard of") \
  X(kReleasedUnready, "J5", "releases all when all want to leave, whatever is under way") \
  X(kNoStandIn, "J5", "calls nothing in a leaver's stead") \
  X(kLeaverNotTold, "J5", "tells leavers what is under way, not what is called later") \
  X(kLeaversMeanNothing, "J5", "takes what another leaver has called for what nobody means") \
  X(kAckOnlyRides, "J6", "waits for a later operation to carry an ack") \
  X(kAckRepeated, "J6", "says the same ack again and again") \
  X(kSpoiledWorkCounts, "F1", "counts what was read while its owner took it back") \
  X(kOldEraRead, "F2", "reads frames of an older era") \
  X(kNewWordDropped, "F2", "drops words of an era that it has not installed yet") \
  X(kAckOutlivesEra, "F2", "lets acks of the old era count in the new one") \
  X(kCreditOutlivesEra, "F2", "sends on the credit of the old era") \
  X(kOldWordObeyed, "F2", "obeys words of an older era") \
  X(kRevokeForgotten, "F2", "gives its status without closing the links to those who are out") \
  X(kForgetsItsOwn, "F2", "forgets members of its view when their links end") \
  X(kSlotReusedEarly, "F2", "gives a frame back while work on it is under way") \
  X(kNoUndoLog, "F3", "lets results land in place without saving what they land on") \
  X(kUndoReleasedEarly, "F3", "releases the undo log when complete, before delivery") \
  X(kRetryWithoutUndo, "F3", "retries in place without undoing what has landed") \
  X(kNoShadow, "F3", "exchanges in place without moving the input out of the way") \
  X(kStagingKept, "F3", "does not give staging back") \
  X(kLaneSlotReused, "F4", "publishes where an operation lies that is not stable") \
  X(kFramesBesideLane, "F4", "takes frames for what is being made of the lanes") \
  X(kLaneFlagLate, "F4", "raises its flag when it has scanned the lanes") \
  X(kLaneNotScanned, "F4", "freezes without looking at the lanes again") \
  X(kLaneScanDelivers, "F4", "delivers by an ack what it has found in the lanes when it froze") \
  X(kLaneLeaverDropped, "F4", "lets go of the leavers' lanes before it scans") \
  X(kLaneFlagsIgnored, "F4", "delivers from the lane without looking at the flags") \
  X(kLaneStaleLine, "F4", "takes a line of another attempt for one of its own") \
  X(kSharedUnmade, "F4", "copies a sum of the lane before its owner has made it") \
  X(kLaneSharedScanned, "F4", "takes for delivered what somebody shares, as in one pass") \
  X(kSharedPartsSummed, "F4", "sums for itself what others may have written over since") \
  X(kDoneEarly, "V1", "says that it is done with what is shared while it still reads it") \
  X(kOutUnflagged, "F4", "is out, and gives back what others read without a word in the lane") \
  X(kSharedUndoLost, "F3", "leaves the fast path and forgets what it has written over") \
  X(kFastLineForgotten, "F4", "stops the fast path and forgets that its line is out") \
  X(kLaneWordIsTheHubs, "F4", "has a hub speak for all of what the lane may take") \
  X(kFastOutlivesNews, "F4", "takes a call to be like the last one whatever came in between") \
  X(kFastSeenBefore, "F4", "lets the lines of the last call stand for those of one that recurs") \
  X(kFastForeseenAnyway, "F4", "makes a result of what it foresaw, whatever the lines say") \
  X(kLaneNotHeld, "J3", "publishes lines that let others pass a boundary it has reserved") \
  X(kLaneAheadOfView, "J3", "takes the line of one who knows of a boundary that it does not") \
  X(kUrgentPassesControl, "J3", "lets urgent data pass the words that went before it") \
  X(kKeptOverstated, "F5", "claims to hold pieces that it does not hold") \
  X(kLentPieceKept, "F5", "keeps pieces for the retry that lie in the memory of who lent them") \
  X(kPiecesOfToday, "F5", "cuts a retried operation into pieces anew") \
  X(kOwnWiresCount, "F5", "chooses plans by the wires that it has measured itself") \
  X(kOwnInputFirst, "F6", "adds its own input first, the others in list order") \
  X(kAnnouncedMoved, "F6", "puts newcomers before others who were announced") \
  X(kNewcomersFirst, "F6", "puts newcomers in front of those who are in") \
  X(kRanksOfToday, "F7", "names a step's ranks by its own view, not that of who began it first") \
  X(kNamedViewUntold, "F7", "does not tell the views that its steps' ranks are named by") \
  X(kNamedViewForgotten, "F7", "forgets a view by which who is behind names a step's ranks yet") \
  X(kLayoutOfToday, "F7", "lays segments out by today's members, not by the epoch named") \
  X(kGoneSegmentsKept, "F7", "leaves the segments of members that are gone as they were") \
  X(kHalfReplicaStays, "Q7", "evicts the member that died and keeps the rest of its replica")

// The same of what drives a GPU (src/device, kernels/resident.h); the device simulator
// (ftar-device-sim) looks for them.
#define FTAR_DEVICE_MUTANT_LIST(X) \
  X(kNumberBeforePart, "order", "stores a part's number before the part itself") \
  X(kNumberUnordered, "order", "reads a part without waiting for its number in order") \
  X(kDoneBeforeData, "order", "stores the number of what is done before the data") \
  X(kAbortSeenByOne, "barrier", "lets the thread that has seen an abort go on alone") \
  X(kReturnsFromWait, "barrier", "leaves the kernel from a wait, past the others' barrier") \
  X(kStaleEpochRuns, "abort", "carries out a part of an epoch that was aborted") \
  X(kAbortEndsRunning, "abort", "counts what still runs as done when it aborts") \
  X(kAbortUntold, "abort", "drops what waits, and tells the device nothing") \
  X(kOneBlockSpeaksForAll, "done", "takes one block's done for the whole plan's") \
  X(kOverlapTogether, "order", "starts plans together that touch the same memory") \
  X(kRunInConflict, "order", "launches plans as one that touch the same memory") \
  X(kRunAcrossEpochs, "abort", "launches plans as one that an abort lies between") \
  X(kSlotReused, "slots", "writes over a part that its block may not have read yet") \
  X(kAbsentBlockServed, "crew", "hands parts to blocks that have not come or have left") \
  X(kLaunchedTwice, "crew", "launches a kernel again before all blocks of the last have left") \
  X(kCountsFromOne, "crew", "lets a new kernel begin with the first part of all") \
  X(kLeftUndoneLost, "crew", "does not hand over again what a kernel has left undone") \
  X(kHeldLeaves, "hold", "leaves for silence though it has heard that it is held") \
  X(kHoldUnheard, "hold", "takes the kernel for held before its blocks have heard it")
// clang-format on

#endif  // FTAR_BASE_MUTANT_LIST_H_
