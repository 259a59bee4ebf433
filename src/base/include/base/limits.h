/*
 * What the process may hold open.
 */
#ifndef TASD_BASE_LIMITS_H
#define TASD_BASE_LIMITS_H

/*
 * Raise the number of open files to what the system allows: every shard of
 * every container that is looked at is one.  Best effort, at start.
 */
void tasd_limits_raise_files(void);

#endif
