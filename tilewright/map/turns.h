// Turns: computing groups issue their products one after another, so that the matrix unit works for one while the others do element work.
//
// Two barriers of the mapped program by their ids. take_turn (Scope::Group) waits until the group before has passed the turn on; pass_turn (Scope::Thread: it
// orders nothing) hands it to the next one. The first group has the turn to begin with, and each group takes and passes it equally often.
#pragma once

namespace tilewright {

constexpr int take_turn = 1, pass_turn = 2;

}  // namespace tilewright
