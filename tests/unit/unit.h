/*
 * What every unit test's main() would repeat: one suite of one case, run in
 * child processes so that a crash is a failure with a name.
 */
#ifndef TASD_TESTS_UNIT_H
#define TASD_TESTS_UNIT_H

#include <check.h>
#include <stdlib.h>

static inline int unit_run(const char *name, const TTest *const *tests)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 60);
	for (; *tests != NULL; tests++)
		tcase_add_test(tcase, *tests);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
